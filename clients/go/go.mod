module tollhouse

go 1.19
