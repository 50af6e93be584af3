"""`make test-daily`: what people have open all day, with its windows, over weft."""
