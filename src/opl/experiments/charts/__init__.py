"""The paper's figures, one file each: values in, figure out. Nothing here trains, reads a file or needs torch.

Each figure module has a value type; one adapter that builds its values from runs, used by the report's page too;
`draw(...)`, which returns a matplotlib figure, saved with `style.save`; `render(rows, order)`, which `paper.draw`
calls; and `NEEDS`, the arrays of a run that it is drawn from. `plane` is figure 2, `training` 3, `similarity` 4,
`gallery` 5, `search` 6, `lda` s1, `neighbors` s3, `grid` table 8 and `widths` table s2; `flow`, `features` (the demo)
and `trials` (a search) are not in the paper. `footer` writes below every figure what it was drawn from.
"""
