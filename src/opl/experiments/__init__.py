"""Training, evaluation, tables, figures and reports, built on the library, which never imports this package."""
