--- hyper: hyperparameters: their schema, their values, and what a rule sees of them.
local options = require "optlua.options"
local blame = require "optlua.blame"
local clipping = require "optlua.optim.clipping"
local snapshot = require "optlua.snapshot"

local hyper = {}

-- What a group says of itself, and what a container takes: not for hyperparameters.
local reserved = {}
for word in ([[name names match class expect frozen params state step lr_scale wd_scale unfreeze_at groups
  max_norm norm_type grad_scale nonfinite ema state_dtype state_rounding rounding_seed in_backward zero mode]]):gmatch "%S+" do
  reserved[word] = true
end
for word, option in pairs(clipping.schema) do reserved[word] = option end -- only its own description may bear the name

--- Whether a word is one that groups use themselves: no name for a number of theirs, nor for a hyperparameter.
---@param word string
---@return boolean
function hyper.is_reserved(word) return reserved[word] ~= nil end

local type_of = { above = "number", below = "number", choices = "table", default = "any", doc = "string",
  integer = "boolean", max = "number", min = "number", type = "string" }
local fields = options.names(type_of)

-- A table with keys is no default: it was meant to describe one.
local function check_keys(what, name, default)
  for key in pairs(default) do
    if not type_of[key] and math.type(key) ~= "integer" then
      blame(("%s: hyper.%s: %s"):format(what, name, options.unknown("field", key, fields)))
    end
    if type_of[key] then blame(("%s: hyper.%s: a description needs the field default"):format(what, name)) end
  end
end

local function check_description(what, name, option)
  for field, value in pairs(option) do
    if not type_of[field] then
      blame(("%s: hyper.%s: %s"):format(what, name, options.unknown("field", field, fields)))
    end
    if type_of[field] ~= "any" and type(value) ~= type_of[field] or field ~= "default" and value ~= value then
      blame(("%s: hyper.%s: %s: a %s expected, got %s"):format(what, name, field, type_of[field],
        value ~= value and "NaN" or type(value)))
    end
  end
  if type(option.default) == "table" then check_keys(what, name, option.default) end
  local kind = type(option.default)
  if kind == "function" or kind == "userdata" or kind == "nil" then
    blame(("%s: hyper.%s: the default is a number, a boolean, a word or a list of them"):format(what, name))
  end
end

-- What those mean that most classes have, where a class does not say.
local meanings = {
  amsgrad = "whether the largest average of squares so far counts",
  betas = "decays of running averages",
  dampening = "the part of the gradient that the momentum leaves out",
  decoupled_weight_decay = "whether weights decay by themselves, as in AdamW, not through the gradient",
  eps = "keeps denominators from 0",
  lr = "the learning rate",
  maximize = "whether it goes uphill",
  momentum = "the part of the last step that goes on",
  nesterov = "whether the momentum counts ahead, as Nesterov's",
  weight_decay = "how fast weights are drawn to 0",
}

-- A copy of a description, which the script may change and use again; it says what it means.
local function own_description(name, option)
  local copy = snapshot(option)
  copy.doc = copy.doc or meanings[name]
  return copy
end

--- Checks the hyperparameters that a definition declares.
---@param what string the class, for messages
---@param declared table<string, any>? defaults, or descriptions with a field `default`
---@return table<string, optlua.Option> schema
function hyper.schema(what, declared)
  local schema = {}
  if declared ~= nil and type(declared) ~= "table" then blame(what .. ": hyper: a table expected") end
  for name, entry in pairs(declared or {}) do
    if type(name) ~= "string" or not name:find "^[%a_][%w_]*$" then
      blame(("%s: hyper: %s is no name for a hyperparameter"):format(what, tostring(name)))
    end
    if reserved[name] and reserved[name] ~= entry then
      blame(("%s: hyper: '%s' is a word that groups use themselves; choose another"):format(what, name))
    end
    local option = options.describe(entry)
    check_description(what, name, option)
    local _, problem = options.value(name, option.default, option)
    if problem then blame(("%s: hyper: the default is not legal: %s"):format(what, problem)) end
    schema[name] = reserved[name] and option or own_description(name, option)
  end
  return schema
end

local function refuse_element() blame "an element of a list hyperparameter cannot be set; assign the whole list" end

-- A list that cannot be changed: what was checked stays as it is.
local function freeze(value)
  if type(value) ~= "table" then return value end
  return setmetatable({}, {
    __index = value,
    __newindex = refuse_element,
    __len = function() return #value end,
    __pairs = function() return pairs(value) end,
  })
end

--- A list that `freeze` made, as an ordinary one; other values as they are.
---@param value any
---@return any
function hyper.thaw(value)
  return type(value) == "table" and table.move(value, 1, #value, 1, {}) or value
end

--- A value as text: lists in braces, words in quotes.
---@param value any
---@return string
function hyper.text(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) ~= "table" then return tostring(value) end
  local words = {}
  for i, element in ipairs(value) do words[i] = hyper.text(element) end
  return "{ " .. table.concat(words, ", ") .. " }"
end

-- Whether a number, or one in a list, is infinite.
local function is_infinite(value)
  if type(value) == "number" then return value == math.huge or value == -math.huge end
  for _, element in ipairs(type(value) == "table" and value or {}) do
    if is_infinite(element) then return true end
  end
  return false
end

--- Checks one value. Infinity is a value where it is the default, or the maximum.
---@param name string
---@param value any
---@param option optlua.Option
---@return any checked
---@return string? problem
function hyper.value(name, value, option)
  if type(value) == "function" then
    return nil, ("%s: a function is no value; optim.scheduler(optimizers, %q, f) moves it by a factor f(step), "
      .. "schedule.value(f) gives f(step) itself"):format(name, name)
  end
  local checked, problem = options.value(name, value, option)
  if not problem and is_infinite(checked) and not (is_infinite(option.default) or is_infinite(option.max)) then
    problem = ("%s: a finite number expected, got %s"):format(name, hyper.text(value))
  end
  return freeze(checked), problem
end

--- Checks values by name; what is not given gets its default.
---@param given table<string, any>
---@param schema table<string, optlua.Option>
---@param others? string[] names that are legal besides, for messages
---@return table<string, any> checked
---@return string[] problems
function hyper.values(given, schema, others)
  local checked, problems, names = {}, {}, options.names(schema)
  local legal = table.move(names, 1, #names, 1, {})
  table.move(others or {}, 1, #(others or {}), #legal + 1, legal)
  for name in pairs(given) do
    if not schema[name] then problems[#problems + 1] = options.unknown("hyperparameter", name, legal) end
  end
  table.sort(problems)
  for _, name in ipairs(names) do
    local value = given[name]
    if value == nil then value = schema[name].default end
    checked[name], problems[#problems + 1] = hyper.value(name, value, schema[name])
  end
  return checked, problems
end

--- Makes the table of current values, which lacks nothing in silence, and the `h` of rules: the same
--- values, not to be assigned to.
---@param values table<string, any>
---@param names string[]
---@return table values
---@return table h
function hyper.face(values, names)
  local legal = table.move(names, 1, #names, 1, {})
  legal[#legal + 1] = "step"
  setmetatable(values, {
    __index = function(_, name) blame(options.unknown("hyperparameter", name, legal)) end,
  })
  local h = setmetatable({}, {
    __index = values,
    __newindex = function() blame("a rule cannot assign to hyperparameters") end,
    __pairs = function() return next, values end,
  })
  return values, h
end

return hyper
