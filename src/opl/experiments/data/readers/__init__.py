"""File formats, folders, the Hub and the cache of decoded images."""
