--- reload: takes over changes of the script and of config files between two updates, on SIGHUP or with --watch.
--
-- Hyperparameters, values of groups, the schedule, max_norm and grad_scale can change; what else differs is named and left. A file that
-- cannot be read is reported, and the run goes on as it was.
local optlua = require "optlua"
local build = require "optlua.spec.build"
local choice = require "optlua.config.choice"
local classes = require "optlua.optim.classes"
local command = require "optlua.config.command"
local curve = require "optlua.schedule.curve"
local files = require "optlua.files"
local hyper = require "optlua.optim.hyper"
local options = require "optlua.options"
local optim = require "optlua.optim"
local registry = require "optlua.registry"
local signals = require "optlua.spec.signals"
local text = require "optlua.config.text"
local wrapper = require "optlua.optim.wrapper"

local clock = require("optlua.core").clock

local INTERVAL = 1 -- seconds between two looks at the files

local reload = {}

-- Runs the script again; what it registers it may register anew, and the numbers of the run stay those that they would be.
local function run_again(spec, words)
  local path = (_G.arg or {})[0]
  local chunk, problem = loadfile(path, "t")
  if not chunk then error(problem, 0) end
  local random = optlua.get_rng_state()
  local ok, again = registry.renew(chunk, table.unpack(words))
  optlua.set_rng_state(random)
  if not ok then error(again, 0) end
  if getmetatable(again) ~= getmetatable(spec) then error(path .. " returns no spec any more", 0) end
  return again
end

-- The config of the script and its files as they are now.
local function read_again(spec, words, kinds, begin)
  local config = begin(run_again(spec, words):new_config())
  local _, problems = command.read(words, config, kinds)
  for _, one in ipairs(problems) do config:complain("%s", one) end
  config:finish(spec.name)
  return config
end

-- Functions are made anew each time and count as the same.
local function same(a, b) return text.write(a == nil and text.null or a) == text.write(b == nil and text.null or b) end

-- Configs raise for keys that are not there.
local function at(section, key) return section and rawget(section, key) end

local function keys_of(a, b)
  local keys = {}
  for key in pairs(a or {}) do keys[key] = true end
  for key in pairs(b or {}) do keys[key] = true end
  return options.names(keys)
end

-- What differs between plan.was and plan.now: what can change in a run is noted in plan.changes, the rest in plan.left. In the end
-- `now` is what holds.

-- Keys below a path.
local function below(path, ...)
  local longer = { table.unpack(path) }
  for _, key in ipairs { ... } do longer[#longer + 1] = key end
  return longer
end

-- A value that does not change is in `now` what it was.
local function put_back(plan, path)
  local was, now = plan.was, plan.now
  for i = 1, #path - 1 do
    local key = path[i]
    if not at(now, key) then rawset(now, key, {}) end
    was, now = at(was, key), at(now, key)
  end
  rawset(now, path[#path], at(was, path[#path]))
end

local function leave(plan, path, name)
  plan.left[#plan.left + 1] = name or table.concat(path, ".")
  put_back(plan, path)
end

-- The paths are those that the change comes from.
local function change(plan, paths, line, apply) plan.changes[#plan.changes + 1] = { paths = paths, line = line, apply = apply } end

-- Hyperparameters ---------------------------------------------------------------------------------------------

-- The section of a group by its name; where the config has no groups, one for all.
local function own_section(cfg, name)
  if not at(cfg, "groups") then return {} end
  for _, group in ipairs(cfg.groups) do
    if at(group, "name") == name then return group end
  end
end

-- The base of a hyperparameter of a group as a config has it; nil where it leaves it to the class.
local function base_of(cfg, own, name)
  local value = at(own, name)
  local section = at(cfg, "optimizer")
  if value == nil and not (section and choice.other_classes(section, { own })) then value = at(section, name) end
  if type(value) ~= "number" then return value end
  local scale = name == "lr" and at(own, "lr_scale") or name == "weight_decay" and at(own, "wd_scale") or 1
  return value * scale
end

-- Where the base of a hyperparameter may come from.
local function sources(path, cfg, group, name)
  local paths = { below(path, name) }
  for i, section in ipairs(at(cfg, "groups") or {}) do
    if at(section, "name") == group.name then
      for _, key in ipairs { name, "lr_scale", "wd_scale" } do paths[#paths + 1] = { "groups", i, key } end
    end
  end
  return paths
end

-- Checks values of a group; they are set when everything has been checked.
local function plan_group(plan, path, cfg, group, given)
  local checked, problem = group:check(given)
  if problem then error(("group '%s': %s"):format(group.name, problem), 0) end
  for _, name in ipairs(group.class.hyper_names) do
    if given[name] ~= nil then
      change(plan, sources(path, cfg, group, name), ("%s of group %s: %s, was %s"):format(name, group.name, hyper.text(checked[name]),
        hyper.text(group.base[name])), function() group:put(name, checked[name]) end)
    end
  end
end

local function plan_values(plan, optimizer, path, was, now)
  for _, group in ipairs(optimizer._groups) do
    local old, new, given = own_section(was, group.name), own_section(now, group.name), {}
    for _, name in ipairs(old and new and group.class.hyper_names or {}) do
      local value = base_of(now, new, name)
      if not same(base_of(was, old, name), value) then
        if value == nil then value = group.class.hyper[name].default end
        given[name] = value
      end
    end
    plan_group(plan, path, now, group, given)
  end
end

-- The names of all hyperparameters of an optimizer, and of what scales them.
local function movable(optimizer)
  local names = { lr_scale = true, wd_scale = true }
  for _, group in ipairs(optimizer._groups) do
    for _, name in ipairs(group.class.hyper_names) do names[name] = true end
  end
  return names
end

-- A number of the container as a whole.
local function plan_whole(plan, path, whole, name, new)
  local problem = whole:check(name, new)
  if problem then error(problem, 0) end
  change(plan, { path }, ("%s: %s, was %s"):format(name, tostring(new or "none"), tostring(whole.base[name] or "none")),
    function() whole:assign(name, new) end)
end

-- A wrapper makes groups of its arguments as it likes.
local function is_wrapped(section) return section and wrapper.is((classes.resolve(at(section, "class")))) end

-- Keys of a section that are no hyperparameters: max_norm and grad_scale change, others are left.
local function plan_section(plan, optimizer, path, was, now)
  local moves, wrapped, whole = movable(optimizer), is_wrapped(was), rawget(optimizer, "_whole")
  for _, key in ipairs(keys_of(was, now)) do
    if not same(at(was, key), at(now, key)) then
      if whole and whole.class.hyper[key] then plan_whole(plan, below(path, key), whole, key, at(now, key))
      elseif wrapped or not moves[key] then leave(plan, below(path, key)) end
    end
  end
end

local function have_same_names(a, b)
  if #a ~= #b then return false end
  for i, group in ipairs(a) do
    if at(group, "name") ~= at(b[i], "name") then return false end
  end
  return true
end

local function plan_groups(plan, optimizer, was, now)
  local old, new = at(was, "groups") or {}, at(now, "groups") or {}
  local moves = movable(optimizer)
  if not have_same_names(old, new) then return leave(plan, { "groups" }) end
  for i = 1, #old do
    for _, key in ipairs(keys_of(old[i], new[i])) do
      if not moves[key] and not same(at(old[i], key), at(new[i], key)) then
        leave(plan, { "groups", i, key }, ("groups.%s.%s"):format(old[i].name, key))
      end
    end
  end
end

-- Schedules ---------------------------------------------------------------------------------------------------

-- The same section, or one that gives the same values.
local function same_schedule(was, now, steps)
  if same(was, now) and (not was or type(at(was, "class")) == "string") then return true end
  if not was or not now or at(was, "interval") ~= at(now, "interval") then return false end
  local prints = {}
  for i, section in ipairs { was, now } do
    local built = build.schedule(section, steps)
    local ok, made = pcall(curve.of, "lr_scheduler", built)
    if not ok then return false end
    prints[i] = text.write((made:fingerprint()))
  end
  return prints[1] == prints[2]
end

local function plan_schedule(plan, state, optimizer, path, was, now, keep)
  if same_schedule(was, now, state.training_steps) then return end
  local made = now and build.schedule(now, state.training_steps) or function() return 1 end
  change(plan, { path }, table.concat(path, ".") .. ": another schedule", function()
    keep(optim.lr_scheduler(optimizer, made, { interval = at(now, "interval") }))
  end)
end

-- A run with one optimizer, and one with several, each with a section of its own. Values come last: they follow from what is left.
local function plan_single(plan, state, was, now)
  local optimizer = state.optimizers
  if type(optimizer._groups) ~= "table" then return leave(plan, { "optimizer" }) end
  plan_section(plan, optimizer, { "optimizer" }, at(was, "optimizer"), at(now, "optimizer"))
  plan_groups(plan, optimizer, was, now)
  if not is_wrapped(at(was, "optimizer")) then plan_values(plan, optimizer, { "optimizer" }, was, now) end
  plan_schedule(plan, state, optimizer, { "lr_scheduler" }, at(was, "lr_scheduler"), at(now, "lr_scheduler"),
    function(made) state.lr_schedulers = made end)
end

local function plan_several(plan, state, was, now)
  for _, name in ipairs(keys_of(at(was, "optimizers"), at(now, "optimizers"))) do
    local old, new, optimizer = at(at(was, "optimizers"), name), at(at(now, "optimizers"), name), state.optimizers[name]
    if old and new and optimizer and optimizer._groups then
      local path = { "optimizers", name }
      plan_section(plan, optimizer, path, old, new)
      if not is_wrapped(old) then plan_values(plan, optimizer, path, { optimizer = old }, { optimizer = new }) end
    elseif not same(old, new) then
      leave(plan, { "optimizers", name })
    end
  end
  for _, name in ipairs(keys_of(at(was, "lr_schedulers"), at(now, "lr_schedulers"))) do
    local old, new = at(at(was, "lr_schedulers"), name), at(at(now, "lr_schedulers"), name)
    if state.optimizers[name] and (state.lr_schedulers or {})[name] then
      plan_schedule(plan, state, state.optimizers[name], { "lr_schedulers", name }, old, new,
        function(made) state.lr_schedulers[name] = made end)
    elseif not same(old, new) then
      leave(plan, { "lr_schedulers", name })
    end
  end
end

-- Taking over -------------------------------------------------------------------------------------------------

local taken = { optimizer = true, groups = true, lr_scheduler = true, optimizers = true, lr_schedulers = true }

-- Everything that differs.
local function plan_all(state, was, now)
  local plan = { was = was, now = now, changes = {}, left = {} }
  for _, name in ipairs(keys_of(was, now)) do
    if not taken[name] and not same(rawget(was, name), rawget(now, name)) then leave(plan, { name }) end
  end
  if state.manual then plan_several(plan, state, was, now) else plan_single(plan, state, was, now) end
  return plan
end

local function report(state, line)
  if not utf8.len(line) then line = line:gsub("[\x80-\xff]", "?") end
  io.stdout:write("reload: ", line, "\n")
  io.stdout:flush()
  state.log_file:write { event = "reload", step = state.step, change = line }
end

-- Reads, plans, and then changes; nothing is changed where something is wrong.
local function take_over(state, spec, words, kinds, begin)
  local config
  local ok, plan = pcall(function()
    config = read_again(spec, words, kinds, begin)
    return plan_all(state, state.config, config.values)
  end)
  if not ok then return report(state, ("%s; the run goes on as it was"):format(tostring(plan))) end
  for _, item in ipairs(plan.changes) do
    local made, problem = pcall(item.apply)
    for _, path in ipairs(made and {} or item.paths) do put_back(plan, path) end
    report(state, made and item.line or ("%s: %s; it stays as it was"):format(item.line, tostring(problem)))
  end
  for _, name in ipairs(plan.left) do report(state, name .. " has changed too; that takes a new run") end
  if #plan.changes + #plan.left == 0 then report(state, "nothing has changed") end
  for name in pairs(taken) do rawset(state.config, name, rawget(plan.now, name)) end
  state.config_text = config:text()
end

-- The contents of the files, to notice changes.
local function contents(paths)
  local list = {}
  for i, path in ipairs(paths) do list[i] = files.read(path) or "" end
  return table.concat(list, "\0")
end

--- Makes a run notice changes.
---@param spec optlua.Spec
---@param words string[] of the command line
---@param given table switches
---@param kinds table of switches
---@param begin fun(config: optlua.Config): optlua.Config puts into a new config what stands before the words
---@return fun(state: optlua.State)
function reload.prepare(spec, words, given, kinds, begin)
  local paths = { (_G.arg or {})[0], table.unpack(given.config) }
  local seen, looked = given.watch and contents(paths) or nil, clock()
  local handled = 0
  local function is_changed()
    if signals.hangups() > handled then
      handled = signals.hangups()
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
      if is_changed() then take_over(state, spec, words, kinds, begin) end
    end
  end
end

return reload
