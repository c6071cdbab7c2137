--- guard: what a layer of the library is called with: checked before its forward pass, in one place.
local blame = require "optlua.blame"
local colon = require "optlua.colon"
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
      blame(("nn.%s: %s: tensor expected, got %s"):format(module:type(), name, colon.describe(value)))
    end
  end
end

--- A method that raises, at the script's line, unless it is called with a module.
---@param name string
---@param method function
---@return function
function guard.method(name, method) return colon.method(name, method, kinds.is_module, "module") end

return guard
