"""Virtual time: worlds of `weft sim`, beside the same in real time where that says something."""
