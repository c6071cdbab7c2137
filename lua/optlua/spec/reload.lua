--- reload: takes over changes of the script and of config files between two updates, on SIGHUP or with --watch.
--
-- Hyperparameters, values of groups, the schedule and max_norm can change; what else differs is named and left. A file that
-- cannot be read is reported, and the run goes on as it was.
local command = require "optlua.config.command"
local build = require "optlua.spec.build"
local hyper = require "optlua.optim.hyper"
local options = require "optlua.options"
local optim = require "optlua.optim"
local text = require "optlua.config.text"

local clock = require("optlua.core").hidden.clock

local INTERVAL = 1 -- seconds between two looks at the files

local reload = {}

-- The config of the script and its files as they are now.
local function read_again(spec, words, kinds)
  local path = (_G.arg or {})[0]
  local chunk, problem = loadfile(path, "t")
  if not chunk then error(problem, 0) end
  local again = chunk(table.unpack(words))
  if getmetatable(again) ~= getmetatable(spec) then error(path .. " returns no spec any more", 0) end
  local config = again:new_config()
  local _, problems = command.read(words, config, kinds)
  for _, one in ipairs(problems) do config:complain("%s", one) end
  return config:finish(spec.name)
end

local function group_section(cfg, name)
  for _, group in ipairs(cfg.groups or {}) do
    if group.name == name then return group end
  end
  return {}
end

-- The base of a hyperparameter of a group as a config has it; nil where it leaves it to the class.
local function base_of(cfg, group, name)
  local own = group_section(cfg, group.name)
  local value = own[name]
  if value == nil and not own.class then value = (cfg.optimizer or {})[name] end
  if type(value) ~= "number" then return value end
  local scale = name == "lr" and own.lr_scale or name == "weight_decay" and own.wd_scale or 1
  return value * scale
end

local function same(a, b) return text.write(a == nil and text.null or a) == text.write(b == nil and text.null or b) end

-- Which hyperparameters change: checked, but not yet assigned.
local function plan_values(state, cfg, changes)
  for _, group in ipairs(state.optimizers._groups) do
    for _, name in ipairs(group.class.hyper_names) do
      local old, new = base_of(state.config, group, name), base_of(cfg, group, name)
      if not same(old, new) then
        local value = new
        if value == nil then value = group.class.hyper[name].default end
        local checked, problem = hyper.value(name, value, group.class.hyper[name])
        if problem then error(("group '%s': %s"):format(group.name, problem), 0) end
        changes[#changes + 1] = { ("%s of group %s: %s, was %s"):format(name, group.name, hyper.text(checked),
          hyper.text(group.base[name])), function() group:assign(name, value) end }
      end
    end
  end
end

local function plan_clip(state, cfg, changes)
  local old, new = (state.config.optimizer or {}).max_norm, (cfg.optimizer or {}).max_norm
  if same(old, new) or not new then return end
  changes[#changes + 1] = { ("max_norm: %s, was %s"):format(new, tostring(old)), function()
    state.optimizers._clip.max_norm, state.optimizers._clip.measure = new, true
  end }
end

local function prints_of(section, steps)
  if not section then return "none" end
  local made = require("optlua.schedule.curve").of("lr_scheduler", build.schedule(section, steps))
  return text.write((made:fingerprint()))
end

local function plan_schedule(state, cfg, changes)
  local steps = state.training_steps
  if prints_of(state.config.lr_scheduler, steps) == prints_of(cfg.lr_scheduler, steps) then return end
  local section = cfg.lr_scheduler
  local made = section and build.schedule(section, steps) or function() return 1 end
  changes[#changes + 1] = { "lr_scheduler: another schedule", function() optim.lr_scheduler(state.optimizers, made) end }
end

local taken = { optimizer = true, groups = true, lr_scheduler = true }

-- What differs and cannot be changed in a run.
local function left_alone(state, cfg)
  local names = {}
  for _, name in ipairs(options.names(cfg)) do
    if not taken[name] and not same(rawget(state.config, name), rawget(cfg, name)) then names[#names + 1] = name end
  end
  if not same((state.config.optimizer or {}).class, (cfg.optimizer or {}).class) then names[#names + 1] = "optimizer.class" end
  return names
end

local function report(state, line)
  io.write("reload: ", line, "\n"):flush()
  state.log_file:write { event = "reload", step = state.step, change = line }
end

-- Reads, plans, and then changes; nothing is changed where something is wrong.
local function take_over(state, spec, words, kinds)
  local changes, cfg, left = {}, nil, nil
  local ok, problem = pcall(function()
    cfg = read_again(spec, words, kinds)
    left = left_alone(state, cfg)
    plan_values(state, cfg, changes)
    plan_clip(state, cfg, changes)
    plan_schedule(state, cfg, changes)
  end)
  if not ok then return report(state, ("%s; the run goes on as it was"):format(tostring(problem))) end
  for _, change in ipairs(changes) do
    change[2]()
    report(state, change[1])
  end
  for _, name in ipairs(left) do report(state, name .. " has changed too; that takes a new run") end
  for name in pairs(taken) do rawset(state.config, name, rawget(cfg, name)) end
end

-- The contents of the files, to notice changes.
local function contents(paths)
  local list = {}
  for i, path in ipairs(paths) do
    local file = io.open(path, "rb")
    list[i] = file and file:read "a" or ""
    if file then file:close() end
  end
  return table.concat(list, "\0")
end

-- SIGHUP, where the program catches it: how many came.
local function hangups()
  local found, signals = pcall(require, "optlua.signals")
  if not found then return function() return 0 end end
  signals.catch_hangup()
  return signals.hangups
end

--- Makes a run notice changes.
---@param spec optlua.Spec
---@param words string[] of the command line
---@param given table switches
---@param kinds table of switches
---@return fun(state: optlua.State)
function reload.prepare(spec, words, given, kinds)
  local paths = { (_G.arg or {})[0], table.unpack(given.config) }
  local seen, looked = given.watch and contents(paths) or nil, clock()
  local count, handled = hangups(), 0
  local function is_changed()
    if count() > handled then
      handled = count()
      return true
    end
    if not given.watch or clock() - looked < INTERVAL then return false end
    looked = clock()
    local now = contents(paths)
    local changed = now ~= seen
    seen = now
    return changed
  end
  return function(state)
    state.reload = function()
      if is_changed() and not state.manual then take_over(state, spec, words, kinds) end
    end
  end
end

return reload
