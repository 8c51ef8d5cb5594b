"""File formats, folder layouts, the Hugging Face Hub, and the cache of decoded images."""
