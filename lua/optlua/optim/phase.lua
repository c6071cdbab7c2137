--- phase: what an optimizer is in the middle of, and which of its methods can be called meanwhile.
local blame = require "optlua.blame"
local closing = require "optlua.closing"

local phase = {}

-- A phase: why methods are refused in it, and which are not. Methods that are not looked at (zero_grad, stats …) always can be called.
local function define(why, ...)
  local legal = {}
  for _, method in ipairs { ... } do legal[method] = true end
  return { why = why, legal = legal }
end

local phases = {
  step = define("not from its own step", "state_dict"), -- closures, steps of classes
  before = define("not from a hook of its step", "state_dict"),
  after = define("not from a hook of its step", "state_dict", "with_eval", "with_ema", "with_swa", "backward"),
  eval = define("not while parameters have the form for evaluation; call train() of the optimizer first", "eval", "train",
    "with_eval", "state_dict", "load_state_dict", "add_group", "run"),
  with_eval = define("not inside with_eval, where parameters have the form for evaluation", "with_eval", "state_dict"),
}
for _, name in ipairs { "step", "before", "after" } do phases[name].within = true end
for _, kind in ipairs { "ema", "swa" } do
  local with, swap = "with_" .. kind, "swap_" .. kind
  phases[with] = define(("not inside %s, where the model holds averages"):format(with), with, "with_eval")
  phases[kind] = define(("not while the model holds averages; %s() puts the weights back"):format(swap), swap, with, "with_eval")
  phases[with].averages, phases[kind].averages = true, true
end

-- Whether parameters have the form for evaluation: what is saved and loaded, and seen by all that share the groups.
local function is_eval(self)
  local groups = self._groups
  for i = 1, #groups do
    if groups[i].mode ~= "train" then return true end
  end
  return false
end

-- What blocks of a step have to do when they are left; and of those whose coroutine was dropped, the innermost first.
local pending, abandoned = {}, {}

local function settle()
  repeat table.remove(abandoned, 1)() until not abandoned[1]
end

--- As optlua.closing; where the block's coroutine is dropped, the function is called by the next method that is looked at.
---@param fn fun(problem: any)
---@return table
function phase.closing(fn)
  local key = {}
  local block = closing(function(problem)
    pending[key] = nil
    fn(problem)
  end)
  pending[key] = fn -- here, where all that it needs outlives the coroutine
  return setmetatable(block, { __close = getmetatable(block).__close, __gc = function()
    abandoned[#abandoned + 1], pending[key] = pending[key], nil
  end })
end

-- The phase in which a method cannot be called.
local function refusing(self, method)
  if abandoned[1] then settle() end
  local now = self._phase or is_eval(self) and "eval"
  return now and not phases[now].legal[method] and now
end

--- Raises when a method cannot be called now.
---@param self table the optimizer
---@param method string
function phase.check(self, method)
  if not (self._phase or self._has_forms or abandoned[1]) then return end -- as at nearly every step
  if not refusing(self, method) then return end
  collectgarbage() -- the step may be one of a coroutine that was dropped
  local now = refusing(self, method)
  if now then blame(("%s: %s: %s"):format(self._name, method, phases[now].why)) end
end

--- Whether averages are in the model.
---@param self table
---@return boolean
function phase.holds_averages(self)
  local now = self._phase
  return now and phases[now].averages == true
end

--- Calls a function in a phase; afterwards, also after an error, that is the one before.
---@param self table
---@param name string
---@param fn function
---@return any ... what it returns
function phase.during(self, name, fn, ...)
  local before = self._phase
  local close = phases[name].within and phase.closing or closing
  local _ <close> = close(function() self._phase = before end)
  self._phase = name
  return fn(...)
end

return phase
