--- optlua: tensors, gradients, networks, and optimizers that are rules.
--
-- `require "optlua"` returns this table and sets no global. Tensor functions are there at once; the
-- parts of the library (nn, optim, data …) are loaded when they are first used: a field that is not
-- there is the module "optlua.FIELD"; where there is none, reading it raises and names the nearest.

local blame = require "optlua.blame"
require "optlua.room"
local core = require "optlua.core"

local _, path = ...
if path then core.hidden.set_library("@" .. path:gsub("init%.lua$", "")) end -- errors blame scripts, not it

local optlua = {}
for name, value in pairs(core) do
  if name ~= "hidden" and name ~= "registry" then optlua[name] = value end
end

local function exists(module)
  return package.loaded[module] ~= nil or package.preload[module] ~= nil
    or package.searchpath(module, package.path) ~= nil
end

return setmetatable(optlua, {
  __name = "optlua",
  __index = function(self, name)
    local module = type(name) == "string" and name:find "^%a[%w_]*$" and "optlua." .. name
    if not module then return nil end
    if not exists(module) then
      local options = require "optlua.options"
      blame(options.missing("optlua", name, options.names(self)))
    end
    local value = require(module)
    rawset(self, name, value)
    return value
  end,
})
