module weft.test/programs

go 1.19
