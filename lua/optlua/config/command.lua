--- command: the command line of a config: --key=value and --key value, config files, and switches.
local choice = require "optlua.config.choice"
local options = require "optlua.options"
local text = require "optlua.config.text"

local command = {}

-- Whether the place of a path holds a boolean: --flag alone then means true.
local function is_boolean(config, path)
  local schema = config.schema
  for i, key in ipairs(path) do
    if type(schema) ~= "table" then return false end
    if i == #path then return type(options.describe(schema[key]).default) == "boolean" end
    schema = schema[key]
  end
end

-- The arguments that are legal in the section that holds the last key of a path: of a choice, or a group; nil where it is neither.
local function arguments_beside(config, path)
  local values, parent = config.values, table.move(path, 1, #path - 1, 1, {})
  for i, group in ipairs(path[1] == "groups" and values.groups or {}) do
    if (group.name or "group" .. i) == table.concat(parent, ".", 2) then
      return choice.group_arguments(group, values.optimizer and values.optimizer.class)
    end
  end
  local kind, section = choice.kind(parent), values
  for _, key in ipairs(parent) do section = section and section[key] end
  return kind and section and choice.arguments(kind, section)
end

-- The same for an argument of what was chosen, when all else is set.
local function is_boolean_argument(config, path)
  local legal = arguments_beside(config, path)
  local described = legal and legal[path[#path]]
  return described ~= nil and type(options.describe(described).default) == "boolean"
end

local function split(name)
  local path = {}
  for key in name:gmatch "[^.]+" do path[#path + 1] = key end
  return path
end

-- Reading: the words, the place of the one that is read, and what came out so far.
---@class optlua.config.Reading
---@field words string[]
---@field at integer
---@field config optlua.Config
---@field given table<string, any>
---@field problems string[]
---@field settings { [1]: string[], [2]: string? }[] paths and values of keys; without one where it is missing

local function complain(self, message, ...) self.problems[#self.problems + 1] = message:format(...) end

-- The value of an option: behind "=", or the next word.
local function take_value(self, value)
  local following = self.words[self.at + 1]
  if value or following == nil or following:find "^%-%-" then return value end
  self.at = self.at + 1
  return following
end

-- What the kinds of options do with a name, and with the value where one stands behind "=".
local forms = {}

function forms.flag(self, name, value)
  self.given[name] = true
  if value then complain(self, "--%s takes no value", name) end
end

function forms.value(self, name, value)
  value = take_value(self, value)
  if not value or value == "" then return complain(self, "--%s: a value is missing", name) end
  if name == "config" then table.insert(self.given.config, value) else self.given[name] = value end
end

function forms.optional(self, name, value) self.given[name] = take_value(self, value) or true end

-- A key of the config; a boolean one alone is true.
function forms.key(self, name, value)
  local path, following = split(name), self.words[self.at + 1]
  local alone = is_boolean(self.config, path) and following ~= "true" and following ~= "false"
  value = value or not alone and take_value(self) or alone and "true"
  self.settings[#self.settings + 1] = { path, value, name = name }
  table.insert(self.given.set, table.concat(path, "."))
end

-- Reads one word, and its value.
local function read_word(self, switches)
  local word = self.words[self.at]
  local name, value = word:match "^%-%-([^=]+)=(.*)$"
  name = name or word:match "^%-%-(.+)$"
  if not name then return complain(self, "%q: options begin with --", word) end
  forms[switches[name] or name == "config" and "value" or "key"](self, name, value)
end

local function set(config, path, word) config:set(path, text.read(word), "--" .. table.concat(path, "."), word) end

--- Reads the words of a command line into a config and into switches.
---@param words string[]
---@param config optlua.Config
---@param switches table<string, "flag"|"value"|"optional"> names of switches that are not keys of the config
---@return table<string, any> given switches; of a flag true; `config`: files, `set`: keys
---@return string[] problems
function command.read(words, config, switches)
  local self = { words = words, at = 1, config = config, given = { config = {}, set = {} }, problems = {}, settings = {} }
  for _, name in ipairs(options.names(switches)) do
    if config.schema[name] ~= nil then
      complain(self, "the key %q of the script's config is a switch of the command line; call it something else", name)
    end
  end
  while self.at <= #words do
    read_word(self, switches)
    self.at = self.at + 1
  end
  for _, path in ipairs(self.given.config) do config:read(path) end
  for _, setting in ipairs(self.settings) do
    if setting[2] then set(config, setting[1], setting[2]) end
  end
  for _, setting in ipairs(self.settings) do
    if not setting[2] and is_boolean_argument(config, setting[1]) then
      set(config, setting[1], "true")
    elseif not setting[2] then
      complain(self, "--%s: a value is missing", setting.name)
    end
  end
  return self.given, self.problems
end

return command
