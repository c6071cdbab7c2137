--- colon: methods that say so where they are called with a dot.
local blame = require "optlua.blame"

local colon = {}

local methods = setmetatable({}, { __mode = "k" }) -- by what wraps them

--- What a value is, for messages.
---@param value any
---@return string
function colon.describe(value)
  if type(value) == "table" and getmetatable(value) == nil then return "a table" end
  return value == nil and "nothing" or "a " .. type(value)
end

--- Raises, at the script's line, because of what stands where an object should.
---@param name string of the method
---@param value any
---@param kind string what the object is: "module"
function colon.refuse(name, value, kind)
  blame(("%s: %s %s expected, got %s; methods are called with a colon: %s:%s(…)"):format(name,
    kind:find "^[aeiou]" and "an" or "a", kind, colon.describe(value), kind, name))
end

--- A method that raises unless it is called with an object of its kind.
---@param name string
---@param method function
---@param is fun(value: any): boolean
---@param kind string
---@return function
function colon.method(name, method, is, kind)
  local function checked(self, ...)
    if not is(self) then colon.refuse(name, self, kind) end
    return method(self, ...)
  end
  methods[checked] = method
  return checked
end

--- Lets the methods of a class be such: its functions under words that do not begin with `_`, but for `new`.
---@param class table
---@param is fun(value: any): boolean
---@param kind string
---@param but? string one that looks itself, because the call would take too long
function colon.watch(class, is, kind, but)
  for name, method in pairs(class) do
    if type(method) == "function" and name ~= "new" and name ~= but and not name:find "^_" then
      class[name] = colon.method(name, method, is, kind)
    end
  end
end

--- What a function of colon.method wraps; any other function itself.
---@param fn function
---@return function
function colon.inside(fn) return methods[fn] or fn end

return colon
