"""Who holds which bytes: allocators, pools, and the replay of a trace against them."""
