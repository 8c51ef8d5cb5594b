"""Everything that trains, measures and shows. The library below never imports it."""
