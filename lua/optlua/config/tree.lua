--- tree: the values of a config, which the command line and config files can change, checked key by key.
--
-- The script's table holds defaults, or descriptions of values (optlua.arg). Values come from it, then from config
-- files in their order, then from the command line; each is checked against its default or description. Some
-- sections choose something by name (see choice.lua); groups are reached by their names.
local options = require "optlua.options"
local blame = require "optlua.blame"
local checking = require "optlua.config.checking"
local choice = require "optlua.config.choice"
local file = require "optlua.config.file"
local key_of = require "optlua.config.key"
local text = require "optlua.config.text"

---@class optlua.Config
---@field values table the values as they stand
---@field notes string[] what was dropped or ignored, for the user
---@field closed table<string, string>? sections that are not read, and what takes their place
---@field unread table<string, string>? those of the script's table that are not read, and what takes their place
---@field open boolean whether optimizer, groups … may be set though the script's table lacks them
---@field makes_groups boolean? whether the script makes groups besides, by a function
---@field makes_optimizer boolean? whether the script makes the optimizer by a function
---@field switches string[] other words of the command line, for messages
local Config = {}
Config.__index = Config

local append, is_description, is_section, name_of = key_of.append, key_of.is_description, key_of.is_section, key_of.name

local standard = { data = true, groups = true, loss = true, lr_scheduler = true, lr_schedulers = true, model = true,
  optimizer = true, optimizers = true }

-- Values ---------------------------------------------------------------------------------------------------

local SECTION = "section of a config" -- the name of the metatables of finished values

-- A copy of data, without what `null` deletes; what is no plain table is shared.
local function copy(value)
  local meta = getmetatable(value)
  if type(value) ~= "table" or meta and meta.__name ~= SECTION then return value end
  local result = {}
  for key, item in pairs(value) do
    if item ~= text.null then result[key] = copy(item) end
  end
  return result
end

local function default_of(value)
  if is_description(value) then return copy(value.default) end
  return copy(value)
end

-- The values of the script's table.
local function defaults(self, schema, path)
  local values = {}
  for key, value in pairs(schema) do
    local own = append(path, key)
    if type(key) ~= "string" or key == "" or key:find "[.=]" then
      blame(("a config has words for keys, without . and =, which options are written with; not %s")
        :format(type(key) == "string" and ("%q"):format(name_of(own)) or tostring(key)))
    end
    if choice.kind(own) and value ~= false then
      local section, problem = choice.normalise(default_of(value))
      if not section then blame(("a config: %s: %s"):format(name_of(own), problem)) end
      values[key] = section
      for name in pairs(section) do self.origin[name_of(append(own, name))] = "script" end
    elseif is_section(value) then
      values[key] = defaults(self, value, own)
    else
      values[key] = default_of(value)
    end
    self.origin[name_of(own)] = "script"
  end
  return values
end

-- What the script says for a key that is described elsewhere.
local function check_default(key, value, described)
  local _, problem = options.value(key, value, options.describe(described))
  if problem then blame("a config: " .. problem) end
end

--- Makes a config of a script's table.
---@param schema table
---@param base? table further keys that are legal, with their defaults
---@return optlua.Config
function Config.new(schema, base)
  if type(schema) ~= "table" then blame("a config is a table, not a " .. type(schema)) end
  local self = setmetatable({ schema = {}, origin = {}, changed = {}, notes = {}, problems = {}, script = schema, base = base or {} }, Config)
  for key, value in pairs(base or {}) do self.schema[key] = value end
  for key, value in pairs(schema) do
    local described = base and is_description(base[key]) and not is_description(value)
    if described then check_default(key, value, base[key]) end
    self.schema[key] = described and setmetatable({ default = value }, { __index = base[key], __name = "arg" }) or value
  end
  self.values, self.defaults = defaults(self, self.schema, {}), defaults({ origin = {} }, self.schema, {})
  return self
end

function Config:complain(format, ...) table.insert(self.problems, format:format(...)) end

-- Whether a word becomes another by one letter more, one less, another one, or two that change places.
local function is_slip(a, b)
  if #a > #b then a, b = b, a end
  if a == b or #b - #a > 1 then return false end
  local at = 1
  while a:byte(at) == b:byte(at) do at = at + 1 end
  if #a < #b then return a:sub(at) == b:sub(at + 1) end
  local swapped = a:sub(at, at + 1):reverse() == b:sub(at, at + 1) and a:sub(at + 2) == b:sub(at + 2)
  return swapped or a:sub(at + 1) == b:sub(at + 1)
end

--- The key that a script's own key was most likely meant to be: longer words that differ in one slip.
---@param key any
---@param known string[]
---@return string?
function Config.meant(key, known)
  for _, name in ipairs(type(key) == "string" and #key > 4 and known or {}) do
    if is_slip(key, name) then return name end
  end
end

--- Notes that a key of the script's own is near another: one that the loop reads, unless it is given. A key that the script
--- describes (optlua.arg) is meant as it is.
---@param key string
---@param meant string?
function Config:note_near(key, meant)
  if is_description(self.script[key]) then return end
  local known = options.names(self.base)
  for name in pairs(standard) do known[#known + 1] = name end
  for _, name in ipairs(known) do
    if name == key then return end
  end
  meant = meant or Config.meant(key, known)
  if meant then
    table.insert(self.notes, ("the config has a key %s of its own (did you mean %s?)"):format(key, meant))
  end
end

-- Setting -----------------------------------------------------------------------------------------------

-- Sets a value that is described by its default or by an arg.
local function set_leaf(self, values, key, described, setting)
  local name, value, raw = name_of(setting.path), setting.value, setting.raw
  if value == text.null then
    values[key] = nil
    return
  end
  local option = options.describe(described)
  if raw and (option.type == "string" or type(option.default) == "string") and type(value) ~= "string" then value = raw end
  if raw and type(value) == "string" and (option.type == "list" or type(option.default) == "table") and value:find "," then
    value = text.split(value)
  end
  if type(option.default) == "table" then option = setmetatable({ any_length = true }, { __index = option }) end
  local checked, problem = options.value(name, value, option)
  if problem then self:complain("%s", problem) else values[key] = checked end
end

-- A value, or what the script has in its place, if that is a class of which it is the name: a config's text has no more.
local function class_of_script(own, value)
  local is_class = type(own) == "table" and getmetatable(own) and type(value) == "string"
  return is_class and rawget(own, "name") == value and own or value
end

local function set_choice(self, values, path, value, source)
  local key = path[#path]
  if value == text.null or value == false then
    values[key] = nil
    return
  end
  local given, problem = choice.normalise(value)
  if problem then return self:complain("%s: %s", name_of(path), problem) end
  local section, own = values[key] or {}, self.defaults
  for _, name in ipairs(path) do own = own and own[name] end
  for name, item in pairs(given) do given[name] = class_of_script(own and own[name], item) end
  values[key] = section
  if given.class ~= nil then
    local class = given.class
    if class == text.null then class = nil end
    if section.class ~= class then self.changed[name_of(path)] = true end
    section.class = class
    self.origin[name_of(append(path, "class"))] = source
  end
  for name, item in pairs(given) do
    if name ~= "class" then
      section[name] = item
      if item == text.null then section[name] = nil end
      self.origin[name_of(append(path, name))] = source
    end
  end
end

-- The place of the group that a path names, and what follows its name, which may have dots.
local function find_group(groups, path)
  local names = {}
  for i, group in ipairs(groups) do names[i] = tostring(group.name or "group" .. i) end
  for last = #path, 2, -1 do
    local name = table.concat(path, ".", 2, last)
    for i, known in ipairs(names) do
      if known == name then return i, table.move(path, last + 1, #path, 1, {}) end
    end
  end
  return nil, options.unknown("group", path[2], names)
end

-- A list of groups as it is given, each a table.
local function read_groups(self, list)
  local groups = {}
  for i, group in ipairs(list) do
    if type(group) ~= "table" or getmetatable(group) or group == text.null then
      return self:complain("groups[%d]: a table expected, got %s", i, text.write(group))
    end
    local fields, problem = choice.normalise(copy(group))
    if problem then return self:complain("groups[%d]: %s", i, problem) end
    local own = (self.defaults.groups or {})[i] or {}
    for name, item in pairs(fields) do fields[name] = class_of_script(own[name], item) end
    groups[i] = fields
  end
  return groups
end

-- Sets a group: one of its fields, several, or deletes it.
local function set_group(self, groups, path, value, source)
  local i, rest = find_group(groups, path)
  if not i and self.makes_groups then rest = rest .. "; the groups that the script's param_groups makes are set there" end
  if not i then return self:complain("groups: %s", rest) end
  if #rest == 0 and value == text.null then
    self.changed.groups = true
    return table.remove(groups, i)
  end
  if rest[1] == "lr_scheduler" then rest = { rest[1] } end -- which is refused when all is said
  local fields = #rest == 0 and value or { [rest[1]] = value }
  if type(fields) ~= "table" or fields[1] ~= nil or #rest > 1 then
    return self:complain("%s: no such place in a group", name_of(path))
  end
  local problem
  fields, problem = choice.normalise(fields)
  if problem then return self:complain("%s: %s", name_of(path), problem) end
  local group, own = groups[i], (self.defaults.groups or {})[i] or {}
  local where = "groups." .. tostring(group.name or "group" .. i)
  for key, item in pairs(fields) do
    if item == text.null then group[key] = nil else group[key] = copy(class_of_script(own[key], item)) end
    if key == "class" then self.changed.groups = true end
    self.origin[("%s.%s"):format(where, key)] = source
  end
end

-- groups.NAME.KEY = value; or all groups, as a list, or some, by name.
local function set_groups(self, values, path, value, source)
  if #path > 1 then return set_group(self, values.groups or {}, path, value, source) end
  if value == text.null then
    values.groups = nil
  elseif type(value) ~= "table" or next(value) == nil then
    self:complain("groups: a list of groups, or groups by name, expected; null switches them off")
  elseif value[1] ~= nil then
    values.groups = read_groups(self, value)
    self.changed.groups = true
  else
    for _, name in ipairs(options.names(value)) do set_groups(self, values, append(path, name), value[name], source) end
  end
end

-- Whether a section that the script's table lacks is read all the same.
local function is_open(self, key) return self.open and standard[key] and not (self.closed and self.closed[key]) end

-- Says that nothing reads a section.
local function complain_unread(self, name, part)
  self:complain("%s: nothing reads it, for the script's %s takes its place", name, part)
end

local function unknown_key(self, schema, path, source)
  local legal = {}
  for name in pairs(schema) do legal[name] = true end
  if #path == 1 and self.open then
    for name in pairs(standard) do legal[name] = is_open(self, name) or nil end
    for name in pairs(schema) do legal[name] = true end
    for _, name in ipairs(source:find "^%-%-" and self.switches or {}) do legal[name] = true end
  end
  local names = options.names(legal)
  local parent = name_of(table.move(path, 1, #path - 1, 1, {}))
  if #path == 1 and self.closed and self.closed[path[1]] then
    return complain_unread(self, path[1], self.closed[path[1]])
  end
  self:complain("%s%s", parent == "" and "" or parent .. ": ", options.unknown("option", path[#path], names))
end

-- Whether a value would change a section that nothing reads. (The loop reads optimizer.nonfinite.)
local function changes_unread(self, path, value)
  if not (self.unread and self.unread[path[1]]) or name_of(path) == "optimizer.nonfinite" then return false end
  local now = self.values
  for _, key in ipairs(path) do now = type(now) == "table" and rawget(now, key) or nil end
  local given = #path == 1 and choice.kind(path) and value ~= text.null and value ~= false and choice.normalise(value) or value
  if is_section(given) and is_section(now) then
    for key, item in pairs(given) do
      if changes_unread(self, append(path, key), item) then return true end
    end
    return false
  end
  return text.write(given) ~= text.write(now == nil and text.null or now)
end

-- Walks to the place of a setting, of which `at` is the key that is next, and sets it there.
---@param self optlua.Config
---@param schema table
---@param values table
---@param setting optlua.config.Setting
---@param at integer
local function set(self, schema, values, setting, at)
  local path, value, source = setting.path, setting.value, setting.source
  local key = path[at]
  local here = table.move(path, 1, at, 1, {})
  local described = schema[key]
  if key == "groups" and at == 1 and (described ~= nil or is_open(self, key)) then return set_groups(self, values, path, value, source) end
  local free = is_open(self, here[1]) and (at == 1 or next(schema) == nil)
  if choice.kind(here) and (described ~= nil or free) then
    if #path > at + 1 then return self:complain("%s: an argument has no parts", name_of(path)) end
    return set_choice(self, values, here, at < #path and { [path[at + 1]] = value } or value, source)
  end
  if described == nil and at == 1 and is_open(self, key) then described = {} end
  if described == nil then return unknown_key(self, schema, here, source) end
  if is_section(described) then
    values[key] = values[key] or {}
    if at < #path then return set(self, described, values[key], setting, at + 1) end
    if value == text.null then values[key] = nil return end
    if type(value) ~= "table" then return self:complain("%s: a table expected, got %s", name_of(path), text.write(value)) end
    for name, item in pairs(value) do
      set(self, described, values[key], { path = append(path, tostring(name)), value = item, source = source }, at + 1)
    end
    return
  end
  if at < #path then return self:complain("%s: %s has no parts", name_of(path), name_of(here)) end
  set_leaf(self, values, key, described, setting)
  self.origin[name_of(path)] = source
end

--- Sets one value; problems are noted, and raised by `finish`.
---@param path string[]
---@param value any config.null deletes
---@param source string where it comes from
---@param raw? string the word of the command line that it was read from
function Config:set(path, value, source, raw)
  if changes_unread(self, path, value) then return complain_unread(self, path[1], self.unread[path[1]]) end
  set(self, self.schema, self.values, { path = path, value = value, source = source, raw = raw }, 1)
end

--- Sets the values of a table.
---@param given table
---@param source string
function Config:merge(given, source)
  for _, key in ipairs(options.names(given)) do self:set({ tostring(key) }, given[key], source) end
end

--- Sets the values of a config file.
---@param path string
function Config:read(path)
  local given, problem = file.read(path)
  if problem then return self:complain("%s", problem) end
  self:merge(given, path)
end

-- Checking ---------------------------------------------------------------------------------------------------

-- Reading a name that a config does not have raises; one that has no value is nil.
local function strict(values, schema, where)
  for key, described in pairs(schema) do
    if is_section(described) and type(values[key]) == "table" and not choice.kind(append(where, key)) then
      strict(values[key], described, append(where, key))
    end
  end
  return setmetatable(values, {
    __name = SECTION,
    __index = function(_, key)
      if schema[key] ~= nil or standard[key] or type(key) ~= "string" then return nil end
      blame(("the config: %s"):format(options.unknown("key", name_of(append(where, key)), options.names(schema))))
    end,
  })
end

--- Checks the whole.
---@return table values reading a name that it does not have raises
---@return string[] problems
function Config:check()
  checking(self, default_of(self.schema.optimizer))
  return strict(self.values, self.schema, {}), self.problems
end

--- Checks the whole and raises all problems at once.
---@param what string begins the message
---@return table values
function Config:finish(what)
  local values, problems = self:check()
  if #problems > 0 then blame(("%s: %s"):format(what, table.concat(problems, "\n" .. what .. ": "))) end
  return values
end

-- Writes `null` for what the script has and the values do not.
local function note_deleted(written, script, path)
  local kind = choice.kind(path)
  local legal = kind and choice.arguments(kind, written) or {}
  for key, value in pairs(script) do
    if written[key] == nil then
      if not kind or legal[key] ~= nil then written[key] = text.null end
    elseif is_section(value) and is_section(written[key]) and not (#path == 0 and key == "groups") then
      note_deleted(written[key], value, append(path, key))
    end
  end
  return written
end

--- The config as Lua data: a config file that gives the same values.
---@return string
function Config:text()
  return "return " .. text.write(note_deleted(copy(self.values), self.defaults, {})) .. "\n"
end

Config.null = text.null

return Config
