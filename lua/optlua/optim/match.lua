--- match: which parameters a group takes.
--
--   "*.bias"                  a glob on the full name: * is any run of characters, dots too; "*.x" also
--                             matches a bare "x"; "a|b" is either
--   { ndim = 2, role = … }    conditions that must all hold; a list means one of them:
--                             pattern (a Lua pattern on the full name), ndim, type (the class of the
--                             owning module), role (see optim.role)
--   function(name, param, module)
local options = require "optlua.options"
local params = require "optlua.optim.params"

local match = {}

local function compile_glob(glob)
  local patterns = {}
  for alternative in (glob .. "|"):gmatch "([^|]*)|" do
    if alternative == "" then return nil, ("match: %q has an empty alternative"):format(glob) end
    local literal = alternative:gsub("[%^%$%(%)%%%.%[%]%+%-%?]", "%%%0")
    patterns[#patterns + 1] = "^" .. literal:gsub("%*", ".*") .. "$"
    if alternative:sub(1, 2) == "*." then patterns[#patterns + 1] = "^" .. literal:sub(4):gsub("%*", ".*") .. "$" end
  end
  return function(name)
    for _, pattern in ipairs(patterns) do
      if name:find(pattern) then return true end
    end
    return false
  end
end

local function type_of(module)
  return module and type(module.type) == "function" and module:type() or nil
end

-- What each condition compares, and what may be compared with it.
local conditions = {
  ndim = { "number", function(_, param) return param.ndim end },
  type = { "string", function(_, _, module) return type_of(module) end },
  role = { "string", params.role },
}

local function check_pattern(pattern)
  if type(pattern) ~= "string" then return "match.pattern: a Lua pattern expected" end
  if pattern:find "[|\\]" then
    return ("match.pattern: %q: Lua patterns know neither | nor \\; give a list of patterns, or escape with %%"):format(pattern)
  end
  local legal, message = pcall(string.find, "", pattern)
  if not legal then return "match.pattern: " .. message:gsub("^.-:%d+: ", "") end
end

local function as_list(value) return type(value) == "table" and value or { value } end

local function compile_pattern(patterns)
  for _, pattern in ipairs(as_list(patterns)) do
    local problem = check_pattern(pattern)
    if problem then return nil, problem end
  end
  return function(name)
    for _, pattern in ipairs(as_list(patterns)) do
      if name:find(pattern) then return true end
    end
    return false
  end
end

local function compile_condition(key, wanted)
  if key == "pattern" then return compile_pattern(wanted) end
  local condition = conditions[key]
  if not condition then
    return nil, "match: " .. options.unknown("condition", key, { "ndim", "pattern", "role", "type" })
  end
  for _, value in ipairs(as_list(wanted)) do
    if type(value) ~= condition[1] then
      return nil, ("match.%s: a %s or a list of them expected, got %s"):format(key, condition[1], type(value))
    end
  end
  return function(...)
    local value = condition[2](...)
    for _, one in ipairs(as_list(wanted)) do
      if one == value then return true end
    end
    return false
  end
end

local function compile_conditions(given)
  local tests = {}
  for key, wanted in pairs(given) do
    local test, problem = compile_condition(key, wanted)
    if problem then return nil, problem end
    tests[#tests + 1] = test
  end
  if #tests == 0 then return nil, "match: there is no condition" end
  return function(...)
    for _, test in ipairs(tests) do
      if not test(...) then return false end
    end
    return true
  end
end

--- Makes a predicate (name, param, module) of what a group's `match` says.
---@param given any
---@return function? predicate
---@return string? problem
function match.compile(given)
  if type(given) == "string" then return compile_glob(given) end
  if type(given) == "function" then return given end
  if type(given) == "table" then return compile_conditions(given) end
  return nil, ("match: a glob, a table of conditions or a function expected, got %s"):format(type(given))
end

return match
