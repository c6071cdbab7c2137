--- transforms: what can be put around any class, by name: "Lookahead(AdamW)" is optim.lookahead(optim.AdamW).
local blame = require "optlua.blame"
local options = require "optlua.options"
local transform = require "optlua.optim.transform"

local transforms = {}

-- The functions of optim by the names that classes bear; each stands in the file of its name.
local functions = { Centralize = "centralize", Lookahead = "lookahead", SAM = "sam", SWA = "swa" }

--- The names of all transforms, sorted.
transforms.names = options.names(functions)

local made = setmetatable({}, { __mode = "k" }) -- by inner class and name

--- Makes a class from a class, once.
---@param name string of the transform
---@param outer table fields of `transform`
---@param class optlua.optim.Class|string what the script gave
---@param ... any and what else it gave: an error
---@return optlua.optim.Class
function transforms.around(name, outer, class, ...)
  if select("#", ...) > 0 then
    blame(("optim.%s: a class alone expected; hyperparameters stand where the class it makes is called: optim.%s(class)(parameters, "
      .. "{ lr = 0.1 })"):format(functions[name], functions[name]))
  end
  local inner, problem = require("optlua.optim.classes").resolve(class)
  if not inner then blame(("optim.%s: %s"):format(functions[name], problem)) end
  if inner.step and not outer.step then
    blame(("optim.%s: %s cannot stand around %s, which has a step of its own"):format(functions[name], name, inner.name))
  end
  made[inner] = made[inner] or {}
  if not made[inner][name] then
    local fields = { name = ("%s(%s)"):format(name, inner.name), doc = inner.doc }
    for field, value in pairs(outer) do fields[field] = value end
    made[inner][name] = transform(inner, fields)
  end
  return made[inner][name]
end

--- The class that is meant by "NAME(CLASS)"; nothing for other words.
---@param word string
---@param resolve fun(inner: string): any, string?
---@return optlua.optim.Class?
---@return string? problem
function transforms.resolve(word, resolve)
  if functions[word] then return nil, ("%s stands around a class: \"%s(AdamW)\""):format(word, word) end
  local name, inner = word:match "^%s*([%a_][%w_]*)%s*(%b())%s*$"
  if not name then return nil end
  if not functions[name] then return nil, options.unknown("transform", name, options.names(functions)) end
  local class, problem = resolve(inner:sub(2, -2):match "^%s*(.-)%s*$")
  if not class then return nil, problem end
  local ok, result = pcall(require("optlua.optim.transforms." .. functions[name]), class)
  if not ok then return nil, (tostring(result):gsub("^[^\n]-:%d+: ", "")) end
  return result
end

return transforms
