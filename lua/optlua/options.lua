--- options: the one place that checks a table of options against a schema.
--
-- A schema maps each legal name to its description:
--
--     options.check("loader", given, {
--       batch_size = { default = 1, integer = true, min = 1, doc = "items a batch" },
--       shuffle    = false,                                   -- a bare value is the default itself
--       betas      = { default = { 0.9, 0.999 }, min = 0, below = 1 },
--       reduction  = { default = "mean", choices = { "none", "mean", "sum" } },
--       collate    = { required = false, type = "function" },  -- may be left out; no default
--       path       = { required = true, type = "string" },
--     })
--
-- A table that has `default` or `required` is a description; anything else is the default itself.
-- `type` is a Lua type, or "integer" (whole floats become integers), "list", "tensor", "callable"
-- or "any"; alternatives are joined by "|". Without it the type is that of the default. Bounds
-- (`min`, `max` inclusive; `above`, `below` exclusive), `integer` and `choices` hold for each element
-- of a list of numbers or words, but not for other tables, where `type` allows them; a list that is given must be as long as its default, unless the
-- default is empty. NaN is refused unless `nan` is true.

local blame = require "optlua.blame"
local core = require "optlua.core"

local options = {}

---@class optlua.Option
---@field default any the value when none is given
---@field required boolean? true: must be given; false: may be left out and has no default
---@field type string?
---@field min number?
---@field max number?
---@field above number?
---@field below number?
---@field integer boolean?
---@field choices any[]?
---@field nan boolean? NaN is a number too
---@field doc string?

local function is_description(entry)
  return type(entry) == "table" and (entry.default ~= nil or entry.required ~= nil)
end

--- The description of an entry of a schema: itself, or one made of a bare default.
---@param entry any
---@return optlua.Option
function options.describe(entry)
  if is_description(entry) then return entry end
  return { default = entry }
end

--- The entry of list that name was most likely meant to be, or nil when none is near.
---@param name string
---@param list string[]
---@return string?
function options.nearest(name, list)
  return core.hidden.nearest(name, list)
end

local function quote(value)
  if value ~= value then return "NaN" end
  return type(value) == "string" and ('"%s"'):format(value) or tostring(value)
end

-- What others call an option.
local synonyms = { learning_rate = "lr", wd = "weight_decay" }

-- The legal name that was most likely meant.
local function meant(name, legal)
  for _, own in ipairs(legal) do
    if own == synonyms[name] then return own end
  end
  return options.nearest(name, legal)
end

--- Says that name is unknown, which legal name is nearest and which there are.
---@param kind string what name names: "option", "class" …
---@param name any
---@param legal string[]
---@return string
function options.unknown(kind, name, legal)
  local near = type(name) == "string" and meant(name, legal)
  local hint = near and (" (did you mean %s?)"):format(quote(near)) or ""
  local list = #legal == 0 and "there are none" or "legal: " .. table.concat(legal, ", ")
  return ("unknown %s %s%s; %s"):format(kind, quote(name), hint, list)
end

--- Says that a module has no such name, and what stands for it where it is PyTorch's, or which is nearest.
---@param what string the module's name
---@param name string
---@param names string[] those that there are
---@return string
function options.missing(what, name, names)
  local instead, near = core.hidden.porting(name), options.nearest(name, names)
  local hint = instead and "; here: " .. instead or near and (" (did you mean %s?)"):format(near) or ""
  return ("%s.%s does not exist%s"):format(what, name, hint)
end

--- Lets the reading of a name that a module lacks raise, naming the nearest.
---@param what string the module's name, for the message
---@param module table
---@return table module
function options.strict(what, module)
  return setmetatable(module, {
    __index = function(_, name)
      if type(name) ~= "string" or name:find "^_" then return nil end
      blame(options.missing(what, name, options.names(module)))
    end,
  })
end

--- The names of a schema, sorted.
---@param schema table<string, any>
---@return string[]
function options.names(schema)
  local names = {}
  for name in pairs(schema) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local is_tensor = core.is_tensor

--- Whether a value can be called.
---@param value any
---@return boolean
function options.is_callable(value)
  local meta = debug.getmetatable(value)
  return type(value) == "function" or (meta ~= nil and meta.__call ~= nil)
end

local function is_list(value)
  if type(value) ~= "table" then return false end
  local count, largest = 0, 0
  for key in pairs(value) do -- `#` may be a method of objects
    if math.type(key) ~= "integer" or key < 1 then return false end
    count, largest = count + 1, math.max(largest, key)
  end
  return count == largest
end

--- The first place of a list that is empty though a later one is not, as where a name is misspelt; nil where there is none.
---@param list table
---@return integer?
function options.hole(list)
  local last = 0
  for key in next, list do
    if math.type(key) == "integer" then last = math.max(last, key) end
  end
  for i = 1, last do
    if rawget(list, i) == nil then return i end
  end
end

local predicates = {
  any = function() return true end,
  integer = function(value) return type(value) == "number" and math.tointeger(value) ~= nil end,
  list = is_list,
  tensor = is_tensor,
  callable = options.is_callable,
}

local function has_type(value, types)
  for name in types:gmatch "[^|]+" do
    local predicate = predicates[name]
    if predicate and predicate(value) or type(value) == name then return true end
  end
  return false
end

local function article(word)
  return (word:find "^[aeiou]" and "an " or "a ") .. word
end

local function type_text(types)
  local words = {}
  for name in types:gmatch "[^|]+" do words[#words + 1] = name == "any" and "anything" or article(name) end
  return table.concat(words, " or ")
end

local bounds = {
  { "min", "at least", function(value, bound) return value >= bound end },
  { "max", "at most", function(value, bound) return value <= bound end },
  { "above", "above", function(value, bound) return value > bound end },
  { "below", "below", function(value, bound) return value < bound end },
}

local function range_text(option)
  local words = {}
  for _, bound in ipairs(bounds) do
    local limit = option[bound[1]]
    if limit ~= nil then words[#words + 1] = bound[2] .. " " .. tostring(limit) end
  end
  return #words == 0 and "" or " " .. table.concat(words, " and ")
end

local function in_range(option, value)
  for _, bound in ipairs(bounds) do
    local limit = option[bound[1]]
    if limit ~= nil and not bound[3](value, limit) then return false end
  end
  return true
end

local function got(value)
  local kind = type(value)
  if kind == "number" or kind == "string" or kind == "boolean" then return quote(value) end
  return is_tensor(value) and "a tensor" or value == nil and "nothing" or article(kind)
end

local function check_number(option, name, value)
  local whole = option.integer and math.tointeger(value)
  if (value ~= value and not option.nan) or (option.integer and not whole) or not in_range(option, value) then
    return nil, ("%s: expected %s%s, got %s"):format(name, option.integer and "an integer" or "a number",
      range_text(option), got(value))
  end
  return whole or value
end

local function check_choice(option, name, value)
  local words = {}
  for i, choice in ipairs(option.choices) do
    if choice == value then return value end
    words[i] = quote(choice)
  end
  return nil, ("%s: expected one of %s; got %s"):format(name, table.concat(words, ", "), got(value))
end

local function check_scalar(option, name, value)
  if option.choices then return check_choice(option, name, value) end
  if type(value) == "number" then return check_number(option, name, value) end
  return value
end

local function check_list(option, name, value)
  local default, copy = option.default, {}
  local fixed = not option.any_length and type(default) == "table" and #default > 0 and is_list(default)
  if fixed and #value ~= #default then
    return nil, ("%s: expected %d values, got %d"):format(name, #default, #value)
  end
  for i, element in ipairs(value) do
    local own = ("%s[%d]"):format(name, i)
    local kind = type(default) == "table" and type(default[1])
    if kind and kind ~= "nil" and type(element) ~= kind then
      return nil, ("%s: expected %s, got %s"):format(own, article(kind), got(element))
    end
    if option.integer and type(element) ~= "number" then
      return nil, ("%s: expected an integer%s, got %s"):format(own, range_text(option), got(element))
    end
    local checked, problem = check_scalar(option, own, element)
    if problem then return nil, problem end
    copy[i] = checked
  end
  return copy
end

local function expected_type(option)
  if option.type then return option.type end
  if option.choices then return "any" end
  if option.integer and type(option.default) ~= "table" then return "integer" end
  if option.default == nil then return "any" end
  return is_list(option.default) and "list" or type(option.default)
end

--- Checks one value against a description.
---@param name string as it is to appear in messages
---@param value any not nil
---@param entry any a description or a bare default
---@return any checked the value; whole floats as integers where one is wanted; lists copied
---@return string? problem what is wrong, and then checked is nil
function options.value(name, value, entry)
  local option = options.describe(entry)
  local types = expected_type(option)
  if not has_type(value, types) then
    return nil, ("%s: expected %s%s, got %s"):format(name, type_text(types), range_text(option), got(value))
  end
  if types == "integer" and not option.integer then
    option = setmetatable({ integer = true }, { __index = option })
  end
  if type(value) == "table" and is_list(value) and not options.is_callable(value) then
    return check_list(option, name, value)
  end
  if type(value) == "table" and option.type and option.choices then return value end -- words by name
  return check_scalar(option, name, value)
end

--- Checks one argument of a call; raises at the script's line.
---@param what string whose argument it is; begins the message
---@param name string
---@param value any nil where it is missing
---@param entry any a description or a bare default
---@return any checked
function options.argument(what, name, value, entry)
  local checked, problem = options.value(name, value, entry)
  if problem then blame(("%s: %s"):format(what, problem)) end
  return checked
end

local function copy_default(value)
  if type(value) ~= "table" or debug.getmetatable(value) then return value end
  local copy = {}
  for key, element in pairs(value) do copy[key] = copy_default(element) end
  return copy
end

-- The begin of what an object, which stands where options should, prints as; nil of a plain table.
local function object_text(value)
  local meta = debug.getmetatable(value)
  local told = meta and meta.__tostring and tostring(value)
  return told and (told:match "^[^\n(]*")
end

local function check_unknown(given, schema, problems)
  local unknown, legal, object = {}, options.names(schema), object_text(given)
  for name in next, given do
    if schema[name] == nil then unknown[#unknown + 1] = name end
  end
  if object and #unknown > 0 then
    problems[#problems + 1] = "expected a table of options, got " .. object
    return
  end
  table.sort(unknown, function(a, b) return tostring(a) < tostring(b) end)
  for _, name in ipairs(unknown) do
    problems[#problems + 1] = options.unknown("option", name, legal)
  end
end

--- Checks given against schema without raising.
---@param given table? options by name; nil: none
---@param schema table<string, any>
---@return table checked a new table: every value that is given and legal, defaults for the others
---@return string[] problems one message each, in a fixed order; empty when all is well
function options.collect(given, schema)
  local checked, problems = {}, {}
  if given ~= nil and type(given) ~= "table" then
    return checked, { "expected a table of options, got " .. got(given) }
  end
  given = given or {}
  check_unknown(given, schema, problems)
  for _, name in ipairs(options.names(schema)) do
    local option, value = options.describe(schema[name]), given[name]
    if value ~= nil then
      checked[name], problems[#problems + 1] = options.value(name, value, option)
    elseif option.required then
      problems[#problems + 1] = ("%s: is required"):format(name)
    else
      checked[name] = copy_default(option.default)
    end
  end
  return checked, problems
end

--- Checks given against schema; raises naming every problem, at the script's line.
---@param what string whose options these are; begins the message
---@param given table? options by name; nil: none
---@param schema table<string, any>
---@return table checked a new table with every option, defaults filled in
function options.check(what, given, schema)
  local checked, problems = options.collect(given, schema)
  if #problems > 0 then
    blame(("%s: %s"):format(what, table.concat(problems, "\n" .. what .. ": ")))
  end
  return checked
end

return options
