--- closing: what is done when a block is left, also by an error.

--- A value for `local _ <close>` that calls a function when its block is left. An interrupt may come while the function puts things
--- back: it is called once more then, before the interrupt goes on. (One that comes just before the first call is not caught.)
---@param fn fun(problem: any) given the error that leaves the block, if any; to call it twice is as to call it once
---@return table
local function closing(fn)
  return setmetatable({}, { __close = function(_, problem)
    local ok, broken = pcall(fn, problem)
    if ok then return end
    fn(problem)
    error(broken, 0)
  end })
end

return closing
