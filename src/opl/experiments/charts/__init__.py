"""One file per chart: its values as a dataclass, computed from runs, and its renderers. Nothing here needs torch.

A chart that `opl reproduce` draws has `draw(...)`, which returns a matplotlib figure, and `render(rows, order)`, which
`figure.draw_item` calls with the runs of an item's rows. A chart of the page has `to_svg(...)` and `data_table(...)`.
Shared: `figure` (matplotlib, files, footers), `svg` (SVG elements),
`style` (colors, symbols, labels), `points`, `samples` and `data_uris`.

`plane` is figure 2, `curves` 3, `similarity` 4, `gallery` 5, `sweeps` 6, `lda` s1, `neighbors` s3, `weight_grid` table
8 and `layer_widths` table s2; `flow`, `features` (the demo), `forest` (the study), `seed_pairs` (the page) and `trials`
(a search) are not in the paper.
"""
