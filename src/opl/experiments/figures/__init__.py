"""The paper's figures, one file each: values in, figure out. Nothing here trains, reads a file or needs torch.

`draw(...)` gives a matplotlib figure for print, to be kept with `style.save`; `page(...)` gives the same for a web
page, as plain values that plotly takes. `plane` is figure 2, `training` 3, `similarity` 4 and s3, `gallery` 5, `search`
6 and table 8, `lda` s1.
"""
