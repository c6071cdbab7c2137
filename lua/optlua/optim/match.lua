--- match: which parameters a group takes.
--
--   "*.bias"                  a glob on the full name: * is any run of characters, dots too; "*.x" also
--                             matches a bare "x"; "a|b" is either
--   { "*.bias", "norm.*" }    a list of globs: one of them
--   { ndim = 2, role = … }    conditions that must all hold; a list means one of them:
--                             pattern (a Lua pattern on the full name), ndim, type (the class of the
--                             owning module), role (see optim.role)
--   function(name, param, module)
local options = require "optlua.options"
local params = require "optlua.optim.params"

local match = {}

local function escape(text) return (text:gsub("[%^%$%(%)%%%.%[%]%+%-%?]", "%%%0"):gsub("%*", ".*")) end

-- Whether a name is what a glob without alternatives describes. The text between stars is looked for
-- from left to right, once: Lua's patterns would try every way to divide the name.
local function compile_simple(glob)
  local pieces = {}
  for piece in (glob .. "*"):gmatch "([^*]*)%*" do pieces[#pieces + 1] = piece end
  local first, last = pieces[1], pieces[#pieces]
  return function(name)
    if #pieces == 1 then return name == glob end
    local at, stop = #first + 1, #name - #last
    if at > stop + 1 or name:sub(1, #first) ~= first or name:sub(stop + 1) ~= last then return false end
    for i = 2, #pieces - 1 do
      local _, found = name:find(pieces[i], at, true)
      if not found or found > stop then return false end
      at = found + 1
    end
    return true
  end
end

local function compile_glob(glob)
  local tests = {}
  for alternative in (glob .. "|"):gmatch "([^|]*)|" do
    if alternative == "" then return nil, ("match: %q has an empty alternative"):format(glob) end
    tests[#tests + 1] = compile_simple(alternative)
    if alternative:sub(1, 2) == "*." then tests[#tests + 1] = compile_simple(alternative:sub(3)) end
  end
  return function(name)
    for _, test in ipairs(tests) do
      if test(name) then return true end
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
  if pattern:find "^%^?%*" then
    local glob = pattern:gsub("^%^", "")
    local same = ("^" .. escape(glob) .. "$"):gsub("^%^%.%*", "")
    return ("match.pattern: %q is a glob, and Lua patterns know no globs; write match = %q, or the pattern %q")
      :format(pattern, glob, same)
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

local function compile_condition(key, wanted, roles)
  if key == "pattern" then return compile_pattern(wanted) end
  local condition = conditions[key]
  if not condition then
    return nil, "match: " .. options.unknown("condition", key, { "ndim", "pattern", "role", "type" })
  end
  for _, value in ipairs(as_list(wanted)) do
    if type(value) ~= condition[1] then
      return nil, ("match.%s: a %s or a list of them expected, got %s"):format(key, condition[1], type(value))
    end
    if key == "role" and roles and not roles[value] then
      return nil, "match.role: " .. options.unknown("role", value, options.names(roles))
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

local function compile_globs(globs)
  for key, glob in pairs(globs) do
    if math.type(key) ~= "integer" then
      return nil, ("match: a list of globs has no condition '%s' beside it; the condition `pattern` is on the name"):format(key)
    end
    if type(glob) ~= "string" then return nil, ("match: glob %d: a word expected, got %s"):format(key, type(glob)) end
  end
  local hole = options.hole(globs)
  if hole then return nil, ("match: glob %d is nil"):format(hole) end
  return compile_glob(table.concat(globs, "|"))
end

local function compile_conditions(given, roles)
  if given[1] ~= nil then return compile_globs(given) end
  local tests = {}
  for key, wanted in pairs(given) do
    local test, problem = compile_condition(key, wanted, roles)
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

--- What a group's `match` says of types that no module which owns one of these parameters is; nil where all are there.
---@param given any
---@param entries table[] { name, tensor, module } each
---@return string?
function match.unknown_type(given, entries)
  local types = {}
  for _, entry in ipairs(entries) do types[type_of(entry[3]) or "none"] = true end
  types.none = nil
  for _, value in ipairs(as_list(type(given) == "table" and given.type or {})) do
    if not types[value] then return "match.type: " .. options.unknown("type", value, options.names(types)) end
  end
end

--- Makes a predicate (name, param, module) of what a group's `match` says.
---@param given any
---@param roles? table<string, true> those that parameters can have; another one is a problem
---@return function? predicate
---@return string? problem
function match.compile(given, roles)
  if type(given) == "string" then return compile_glob(given) end
  if type(given) == "function" then return given end
  if type(given) == "table" then return compile_conditions(given, roles) end
  return nil, ("match: a glob, a table of conditions or a function expected, got %s"):format(type(given))
end

return match
