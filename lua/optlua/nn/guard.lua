--- guard: what a layer of the library is called with: checked before its forward pass, in one place.
local blame = require "optlua.blame"
local optlua = require "optlua"
local kinds = require "optlua.nn.kind"
local members = require "optlua.nn.members"

local guard = {}

local wanted = setmetatable({}, { __mode = "k" }) -- by forward: the names of the tensors that it takes first

local one = { "input" }

--- Lets calls of a class be checked. Its field `inputs` names the tensors of forward (default: input), `also` what
--- else they may be, by name.
---@param class table
function guard.watch(class)
  wanted[class.forward] = { names = rawget(class, "inputs") or one, also = rawget(class, "also") or {} }
end

local function describe(value)
  if type(value) == "table" and getmetatable(value) == nil then return "a table" end
  return value == nil and "nothing" or "a " .. type(value)
end

--- Raises, at the script's line, unless a module's members are what they were, and what it is called with are
--- tensors.
---@param module nn.Module
---@param ... any the arguments
function guard.check(module, ...)
  local inputs = wanted[module.forward]
  if not inputs then return end
  members.check(module)
  for k, name in ipairs(inputs.names) do
    local value = select(k, ...)
    if not optlua.is_tensor(value) and not (inputs.also[name] or ""):find(type(value), 1, true) then
      blame(("nn.%s: %s: tensor expected, got %s"):format(module:type(), name, describe(value)))
    end
  end
end

local guarded = setmetatable({}, { __mode = "k" }) -- methods that were wrapped, by what wraps them

--- A method that raises, at the script's line, unless it is called with a module.
---@param name string
---@param method function
---@return function
function guard.method(name, method)
  local function checked(self, ...)
    if not kinds.is_module(self) then
      blame(("%s: a module expected, got %s; methods are called with a colon: module:%s(…)"):format(name, describe(self),
        name))
    end
    return method(self, ...)
  end
  guarded[checked] = method
  return checked
end

--- What a function of guard.method wraps; any other function itself.
---@param fn function
---@return function
function guard.inside(fn) return guarded[fn] or fn end

return guard
