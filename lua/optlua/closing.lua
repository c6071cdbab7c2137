--- closing: what is done when a block is left, also by an error.

--- A value for `local _ <close>` that calls a function when its block is left, whatever comes: an interrupt waits for its end.
---@type fun(fn: fun(problem: any)): table the function is given the error that leaves the block, if any; it cannot yield
return require("optlua.core").hidden.closing
