"""Reference solutions. They never ship with the kit; tests hold them to full marks."""
