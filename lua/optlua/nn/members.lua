--- members: the fields of a module that are modules, parameters or buffers, in the order of definition;
--- and walks over all that lie below.
local optlua = require "optlua"
local blame = require "optlua.blame"
local kinds = require "optlua.nn.kind"

local members = {}

--- Children of lists are reached as model[1] and named "0", as in PyTorch.
function members.name_of(key)
  return math.type(key) == "integer" and tostring(key - 1) or key
end

function members.describe(self, key)
  return ("%s.%s"):format(self:type(), members.name_of(key))
end

--- Notes a member; one that was there before keeps its place.
function members.note(self, key, kind)
  local list = rawget(self, "_members")
  for _, member in ipairs(list) do
    if member.key == key then
      member.kind = kind
      return
    end
  end
  list[#list + 1] = { key = key, kind = kind }
end

--- Iterates over the members of one module: key, value, kind. Fields that were assigned anew are
--- seen as they are now.
function members.of(self)
  local list, at = rawget(self, "_members"), 0
  return function()
    while at < #list do
      at = at + 1
      local key, kind = list[at].key, list[at].kind
      local value = rawget(self, key)
      if kind == "module" and kinds.is_module(value) then return key, value, kind end
      if kind ~= "module" and optlua.is_tensor(value) then return key, value, kind end
      if value ~= nil then
        blame(("%s: was a %s, and is now a %s"):format(members.describe(self, key), kind, type(value)))
      end
    end
  end
end

local types = { module = "table", parameter = "userdata", buffer = "userdata", transient = "userdata" }

--- Raises where a member was replaced by what is none. (A member that is gone is optional, or missed by its layer.)
function members.check(self)
  local list = rawget(self, "_members")
  for k = 1, #list do
    local member = list[k]
    local value = rawget(self, member.key)
    if value ~= nil and type(value) ~= types[member.kind] then
      blame(("%s: was a %s, and is now a %s"):format(members.describe(self, member.key), member.kind, type(value)))
    end
  end
end

local function join(prefix, key)
  return prefix == "" and members.name_of(key) or prefix .. "." .. members.name_of(key)
end

--- Iterates over a list of tuples { a, b, c }.
function members.each(tuples)
  local at = 0
  return function()
    at = at + 1
    if tuples[at] then return table.unpack(tuples[at]) end
  end
end

--- Lists { name, module } for a module and all below it, parents first. `every`: also those that were
--- seen under another name.
function members.modules(self, every)
  local found, seen, above = {}, {}, {}
  local function visit(module, name)
    if above[module] then
      blame(("%s: a module cannot contain itself"):format(name))
    end
    if seen[module] and not every then return end
    seen[module], above[module] = true, true
    found[#found + 1] = { name, module }
    for key, value, kind in members.of(module) do
      if kind == "module" then visit(value, join(name, key)) end
    end
    above[module] = nil
  end
  visit(self, "")
  return found
end

--- Lists { name, tensor, module } for the tensors of some kinds.
function members.tensors(self, wanted, every)
  local found, seen = {}, {}
  for name, module in members.each(members.modules(self, every)) do
    for key, value, kind in members.of(module) do
      if wanted[kind] and (every or not seen[value]) then
        seen[value] = true
        found[#found + 1] = { join(name, key), value, module }
      end
    end
  end
  return found
end

return members
