std = "lua54"
unused_args = false
max_line_length = false
files["tests"] = { std = "+busted" }
files["scripts/*_spec.lua"] = { std = "+busted" }
