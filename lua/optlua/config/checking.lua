--- checking: the values of a config against what was chosen in the end: arguments of classes, of schedules, of groups.
local options = require "optlua.options"
local choice = require "optlua.config.choice"
local key_of = require "optlua.config.key"
local text = require "optlua.config.text"

local append, name_of = key_of.append, key_of.name

-- The arguments of one choice or group, against those that are legal.
local function check_section(self, section, legal, where)
  for _, key in ipairs(options.names(section)) do
    local described = legal[key]
    if key ~= "class" and described == nil then
      self:complain("%s: %s", where, options.unknown("option", key, options.names(legal)))
    elseif key ~= "class" and type(section[key]) ~= "function" then
      local checked, problem = options.value(where .. "." .. key, section[key], described)
      if problem then self:complain("%s", problem) else section[key] = checked end
    end
  end
end

-- Whether something else was chosen than in the script: the class, or one that a wrapper builds.
local function is_changed(self, section, legal, where)
  if self.changed[where] then return true end
  for key in pairs(section) do
    if options.describe(legal[key]).is_class and self.origin[where .. "." .. key] ~= "script" then return true end
  end
  return false
end

-- Another class takes no arguments of the old one that it does not know; those of the script are dropped.
local function drop_arguments(self, section, legal, where)
  if not is_changed(self, section, legal, where) then return end
  local dropped = {}
  for _, key in ipairs(options.names(section)) do
    if key ~= "class" and legal[key] == nil and self.origin[where .. "." .. key] == "script" then
      section[key] = nil
      dropped[#dropped + 1] = key
    end
  end
  if #dropped > 0 then
    table.insert(self.notes, ("%s: %s does not take %s; dropped from the script's"):format(where, text.write(section.class),
      table.concat(dropped, ", ")))
  end
end

-- A schedule for each group, by its name: a hint; else nothing.
local function group_hint(self, kind, section)
  for _, group in ipairs(kind == "lr_scheduler" and self.values.groups or {}) do
    if section[group.name or ""] ~= nil then return "; " .. choice.no_schedule(group.name):gsub("^lr_scheduler: ", "") end
  end
  return ""
end

local function check_choice(self, section, path)
  local kind, where = choice.kind(path), name_of(path)
  if section.class == nil then
    return self:complain("%s: class: a class or its name is required%s", where, group_hint(self, kind, section))
  end
  local legal, problem = choice.arguments(kind, section)
  if problem then return self:complain("%s: %s", where, problem) end
  drop_arguments(self, section, legal, where)
  local dropped = choice.drop_ignored(section, legal)
  if #dropped > 0 then
    table.insert(self.notes, ("%s: %s: not needed here, ignored"):format(where, table.concat(dropped, ", ")))
  end
  for _, key in ipairs(options.names(legal)) do
    local option = options.describe(legal[key])
    if option.required and option.default == nil and section[key] == nil and not (self.open and choice.is_length[key]) then
      self:complain("%s.%s: is required", where, key)
    end
  end
  check_section(self, section, legal, where)
end

-- What no group takes of the optimizer's arguments, since each has another class: where something else was chosen than in the
-- script, that of the script is dropped.
local function check_taken(self, section, groups)
  local others = choice.other_classes(section, groups)
  if not others then return end
  if self.class_changed then
    return self:complain("%s; --groups.NAME.class=… changes that of one", choice.untaken("optimizer", section, others))
  end
  local dropped = {}
  for _, key in ipairs(choice.hypers(section)) do
    if self.changed.groups and self.origin["optimizer." .. key] == "script" then
      section[key] = nil
      dropped[#dropped + 1] = key
    else
      self:complain("%s; --groups.NAME.%s=… sets that of one", choice.untaken("optimizer." .. key, section, others), key)
    end
  end
  if #dropped > 0 then
    table.insert(self.notes, ("optimizer: no group takes %s; dropped from the script's"):format(table.concat(dropped, ", ")))
  end
end

-- Hyperparameters of the script's groups that another class does not know are dropped.
local function check_group(self, group, i, default_class)
  local where = "groups." .. tostring(group.name or "group" .. i)
  local legal, problem = choice.group_arguments(group, default_class)
  local is_said = group.class == nil and default_class ~= nil -- of the optimizer
  if problem and is_said then return end
  if problem then return self:complain("%s: %s", where, problem) end
  if group.lr_scheduler ~= nil then
    self:complain("%s: %s", where, choice.no_schedule(tostring(group.name or "group" .. i)))
    group.lr_scheduler = nil
  end
  local changed = self.class_changed or self.origin[where .. ".class"] ~= nil
  for _, key in ipairs(options.names(group)) do
    local given = self.origin[("%s.%s"):format(where, key)]
    if legal[key] == nil and not given and changed then
      group[key] = nil
      table.insert(self.notes, ("%s: %s does not take %s; dropped from the script's"):format(where,
        text.write(group.class or default_class), key))
    end
  end
  check_section(self, group, legal, where)
end

local function check_required(self, schema, values, path)
  for _, key in ipairs(options.names(schema)) do
    local described, own = schema[key], append(path, key)
    if key_of.is_description(described) and described.required and values[key] == nil then
      self:complain("%s: is required", name_of(own))
    elseif key_of.is_section(described) and not choice.kind(own) and values[key] then
      check_required(self, described, values[key], own)
    end
  end
end

local function check_choices(self, values, path)
  for _, key in ipairs(options.names(values)) do
    local own = append(path, key)
    if choice.kind(own) then
      if values[key] then check_choice(self, values[key], own) end
    elseif #own == 1 and type(values[key]) == "table" and choice.kind(append(own, "x")) then
      check_choices(self, values[key], own)
    end
  end
end

--- Notes what is wrong with the values of a config, and drops what another class does not take.
---@param self optlua.Config
---@param own any what the script's table has as optimizer
local function check(self, own)
  local values = self.values
  self.class_changed = values.optimizer and values.optimizer.class ~= (own and choice.normalise(own).class)
  check_required(self, self.schema, values, {})
  check_choices(self, values, {})
  for i, group in ipairs(values.groups or {}) do
    check_group(self, group, i, values.optimizer and values.optimizer.class)
  end
  if values.optimizer and values.groups and not (self.makes_groups or self.makes_optimizer) then
    check_taken(self, values.optimizer, values.groups)
  end
end

return check
