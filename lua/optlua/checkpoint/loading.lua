--- loading: from the folder of a checkpoint into the parts of a run: everything is looked at and read first, then it is put in.
local blame = require "optlua.blame"
local copy = require "optlua.snapshot"
local describe = require("optlua.shape").describe
local into_module = require "optlua.nn.loading"
local optlua = require "optlua"
local options = require "optlua.options"
local record = require "optlua.checkpoint.record"
local safetensors = require "optlua.safetensors"
local surgery = require "optlua.checkpoint.surgery"
local uninterrupted = require("optlua.core").hidden.uninterrupted

local loading = {}

-- Reading --------------------------------------------------------------------------------------------------

local function merge(into, from, prefix, suffix)
  for key, value in pairs(from) do into[(prefix or "") .. key .. (suffix or "")] = value end
end

-- Tensors of one of a checkpoint's files; none where it has no such file.
local function tensors_of(path, saved, name)
  return saved.files[name] and (optlua.load(path .. "/" .. name)) or {}
end

-- A value with the tensors that it refers to, which are taken out of their list.
local function with_tensors(value, tensors)
  local name = record.referred(value)
  local tensor = name and tensors[name]
  if name then tensors[name] = nil end
  if name or type(value) ~= "table" then return tensor or value end
  local result = {}
  for key, item in pairs(value) do result[key] = with_tensors(item, tensors) end
  return result
end

-- The optimizer's state, from both files.
local function optimizer_state(path, saved)
  local tensors = tensors_of(path, saved, "optimizer.safetensors")
  local state = with_tensors(saved.optimizer or {}, tensors)
  merge(state, tensors)
  return state
end

-- What a checkpoint holds for the parts that want it: a state, gradients, who slept, and a function that opens the weights.
local function read(path, saved, given, opts)
  local found = { state = given.optimizer and optimizer_state(path, saved) or {}, frozen = saved.frozen or {},
    gradients = given.model and tensors_of(path, saved, "gradients.safetensors") or {} }
  local file = path .. "/weights.safetensors"
  found.strict = opts.strict
  if not opts.surgery then
    function found.open() return safetensors.open(file) end
    return found
  end
  merge(found.state, found.gradients, "gradients/state.", ".grad") -- they are cut and named like states
  local changed = surgery.operate(opts.surgery, given.model and tensors_of(path, saved, "weights.safetensors") or {}, found.state,
    found.frozen, opts.strict)
  found.strict = changed.strict
  function found.open() return surgery.reader(file, changed.weights) end
  found.state, found.frozen, found.gradients = changed.state, changed.frozen, {}
  for key, value in pairs(found.state) do
    local name = key:match "^gradients/state%.(.+)%.grad$"
    if name then found.gradients[name], found.state[key] = value, nil end
  end
  return found
end

-- Looking --------------------------------------------------------------------------------------------------

-- What is damaged, or not there at all.
local function check_presence(path, saved, given, problems)
  local function need(part, has)
    if given[part] and not has then problems[#problems + 1] = ("%s: it holds no %s"):format(path, part) end
  end
  need("model", saved.files["weights.safetensors"])
  need("optimizer", saved.optimizer)
  need("scheduler", saved.scheduler)
  need("loader", saved.loader)
end

-- What schedulers, the loader and the generator refuse, by trying and going back: they are small.
local function rehearse(saved, given, opts, problems)
  local function try(what, own, load)
    local ok, problem = uninterrupted(function()
      local ok, problem = pcall(load)
      own()
      return ok, problem
    end)
    if not ok then problems[#problems + 1] = ("%s: %s"):format(what, tostring(problem):gsub("^[^\n]-:%d+: ", "")) end
  end
  local function try_part(name, ...)
    local part, more = given[name], table.pack(...)
    if not part or not saved[name] then return end
    local before = copy(part:state_dict())
    try(name, function() part:load_state_dict(before) end,
      function() part:load_state_dict(copy(saved[name]), table.unpack(more)) end)
  end
  try_part("scheduler", { resume = opts.resume })
  try_part "loader"
  local rng = optlua.get_rng_state()
  if opts.rng then try("generator", function() optlua.set_rng_state(rng) end, function() optlua.set_rng_state(saved.rng) end) end
end

--- The first half of loading an optimizer: what is wrong, the names that are missing and unexpected, and what loads it. One that
--- is not of this library has only a second half.
---@param optimizer table
---@param state table<string, any>
---@param strict boolean
function loading.prepare_optimizer(optimizer, state, strict)
  if optimizer._prepare then return optimizer:_prepare(state, strict) end
  return nil, { missing = {}, unexpected = {} }, function() optimizer:load_state_dict(state) end
end

-- Whether an optimizer can still refuse what it was handed when it loads: it, or one inside it, is not of this library.
local function can_refuse(optimizer) return not optimizer._prepare or #optimizer._members > 0 end

--- The second half for several optimizers. Those that can refuse load first; where one does, all have what they had.
---@param list { optimizer: table, commit: fun() }[]
function loading.commit_optimizers(list)
  local before = {}
  local ok, problem = pcall(function()
    for k, item in ipairs(list) do
      if can_refuse(item.optimizer) then
        before[k] = copy(item.optimizer:state_dict())
        item.commit()
      end
    end
  end)
  if not ok then
    for k, state in pairs(before) do list[k].optimizer:load_state_dict(state) end
    error(problem, 0)
  end
  for k, item in ipairs(list) do
    if not before[k] then item.commit() end
  end
end

-- Model and optimizer look before they change: what is wrong, the names that are missing and unexpected, and what loads them.
local function prepare(found, given, problems)
  local report, commits = {}, {}
  local function note(part, problem, names, commit)
    problems[#problems + 1], commits[#commits + 1], report[part] = problem, commit, names
  end
  if given.optimizer then note("optimizer", loading.prepare_optimizer(given.optimizer, found.state, found.strict)) end
  if given.model then
    local reader <close> = found.open()
    note("model", into_module.prepare(given.model, reader, { strict = found.strict }))
    found.known = reader.entry
  end
  for _, part in pairs(report) do part.differing = nil end
  return report, commits
end

-- What is wrong with a gradient, or nil.
local function gradient_problem(name, tensor, grad)
  local wanted = describe(tensor.dtype, tensor.shape)
  local got = optlua.is_tensor(grad) and describe(grad.dtype, grad.shape) or type(grad)
  return got ~= wanted and ("gradients: %s: %s expected, got %s"):format(name, wanted, got) or nil
end

-- Gradients that were saved become present, all others absent; a list of what to set, made and checked first.
local function prepare_gradients(found, given, problems)
  local list, left = {}, {}
  if not given.model then return function() end end
  merge(left, found.gradients)
  for name, tensor in given.model:named_parameters() do
    local grad = found.gradients[name]
    left[name] = nil
    problems[#problems + 1] = grad ~= nil and gradient_problem(name, tensor, grad) or nil
    list[#list + 1] = { tensor, grad }
  end
  if next(left) then problems[#problems + 1] = "gradients: unexpected: " .. table.concat(options.names(left), ", ") end
  return function()
    for _, pair in ipairs(list) do pair[1].grad = pair[2] end
  end
end

-- Putting in -----------------------------------------------------------------------------------------------

-- Those that the checkpoint does not know stay as they are.
local function restore_frozen(model, found)
  local sleeping = {}
  for _, name in ipairs(found.frozen) do sleeping[name] = true end
  for name, tensor in model:named_parameters() do
    if found.known[name] then tensor.requires_grad = not sleeping[name] end
  end
end

local function refuse(problems)
  if #problems > 0 then blame("checkpoint.load: " .. table.concat(problems, "\ncheckpoint.load: ")) end
end

--- Loads a checkpoint whose record was read.
---@param path string
---@param saved table the record
---@param given table the parts
---@param opts table
---@param problems string[] what is wrong already
---@param unchanged fun(): boolean whether it is still the one whose record that is
---@return table extra
---@return string[] differences
---@return table report
function loading.load(path, saved, given, opts, problems, unchanged)
  check_presence(path, saved, given, problems)
  refuse(problems)
  local found = read(path, saved, given, opts)
  rehearse(saved, given, opts, problems)
  local report, commits = prepare(found, given, problems)
  local set_gradients = prepare_gradients(found, given, problems)
  if not unchanged() then problems[#problems + 1] = path .. ": it was saved anew while it was read; nothing was loaded" end
  refuse(problems)
  local differences = {}
  uninterrupted(function()
    for _, commit in ipairs(commits) do commit() end
    if given.model then restore_frozen(given.model, found) end
    if given.model and given.optimizer and saved.mode == "train" then given.optimizer:train() end
    set_gradients()
    if given.scheduler then differences = given.scheduler:load_state_dict(saved.scheduler, { resume = opts.resume }) or {} end
    if given.loader then given.loader:load_state_dict(saved.loader) end
    if opts.rng then optlua.set_rng_state(saved.rng) end
  end)
  return saved.extra or {}, differences, report
end

--- Loads weights that are in a file into a model, through a function that changes names and tensors.
---@param path string a safetensors file
---@param model nn.Module
---@param fn fun(saved: optlua.checkpoint.Surgery)
function loading.load_weights(path, model, fn)
  local changed = surgery.operate(fn, (optlua.load(path)), {}, {}, true)
  local problem, _, commit = into_module.prepare(model, surgery.reader(path, changed.weights), { strict = changed.strict })
  if problem then blame("load: " .. problem) end
  commit()
end

return loading
