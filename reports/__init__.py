"""What the stored files mean: tables, figures and a page, from results alone. Imports no framework and no runner."""
