"""The paper's figures, one file each: values in, figure out. Nothing here trains, reads a file or needs torch.

Each figure has its value type; one adapter that makes such values from runs, for print and for the page alike;
`draw(...)`, a matplotlib figure for print, to be kept with `style.save`; `page(...)`, the same for a web page, as plain
values that plotly takes; `render(rows, order)`, what `paper.draw` writes; and `NEEDS`, the arrays of a run that it is
drawn from. `plane` is figure 2, `training` 3, `similarity` 4, `gallery` 5, `search` 6 and table 8, `lda` s1 and
`neighbors` s3.
"""
