--- run: one run of a spec: what is built in which order, the folder of the run, the result.
local optlua = require "optlua"
local closing = require "optlua.closing"
local blame = require "optlua.blame"
local build = require "optlua.spec.build"
local evaluation = require "optlua.spec.evaluation"
local folder = require "optlua.spec.folder"
local folders = require "optlua.checkpoint.folder"
local keeper = require "optlua.spec.keeper"
local loading = require "optlua.checkpoint.loading"
local lock_folder = require "optlua.checkpoint.lock"
local log = require "optlua.spec.log"
local loop = require "optlua.spec.loop"
local join_parts = require "optlua.spec.parts"
local signals = require "optlua.spec.signals"
local resume = require "optlua.spec.resume"
local states = require "optlua.spec.state"
local uninterrupted = require("optlua.core").hidden.uninterrupted

local run = {}

local function build_data(spec, cfg)
  local train, validation = spec:call("build_data", cfg)
  local check = require("optlua.data.dataset").check
  check("build_data", train)
  if validation ~= nil then check("build_data: the validation set", validation) end
  return train, validation
end

-- How many updates the run has.
local function count_steps(state)
  local cfg = state.config
  local batches = #state.loader
  local an_epoch = state.manual and batches or -(-batches // cfg.accumulate)
  if cfg.steps then return cfg.epochs and math.min(cfg.steps, cfg.epochs * an_epoch) or cfg.steps end
  if cfg.epochs then return cfg.epochs * an_epoch end
  if cfg.max_minutes then return math.maxinteger end
  blame "the config says neither epochs nor steps: how long to train"
end

-- What the model should be measured by.
local function choose_monitor(state)
  local name = state.config.monitor
  if not name then
    local names = {}
    for metric in pairs(state.spec.metrics or {}) do names[#names + 1] = metric end
    table.sort(names)
    name = names[1] or "loss"
  end
  if state.validation and name ~= "loss" and not (state.spec.metrics or {})[name] then
    local names = require("optlua.options").names(state.spec.metrics or {})
    names[#names + 1] = "loss"
    blame("monitor: " .. require("optlua.options").unknown("metric", name, names))
  end
  state.monitor = name
  state.monitor_mode = state.config.monitor_mode or (name:find "loss$" and "min" or "max")
end

-- What several optimizers want together: to go back if one of them wants it, nothing if all want nothing.
local function join_nonfinite(cfg)
  local sections, found, count = { cfg.optimizer or nil }, {}, 0
  for _, section in pairs(cfg.optimizers or {}) do sections[#sections + 1] = section end
  for _, section in ipairs(sections) do
    local wanted = section.nonfinite or "error"
    found[wanted], count = (found[wanted] or 0) + 1, count + 1
  end
  return found.rollback and "rollback" or found.skip and "skip" or count > 0 and found.off == count and "off" or "error"
end

-- What the loop does to gradients between backward and the update, an optimizer that updates in backward cannot keep.
local function check_backward(state)
  local list = state.manual and state.optimizers or { state.optimizers }
  for _, optimizer in pairs(list) do
    if rawget(optimizer, "_updater") then
      if state.accumulate > 1 and not state.manual then
        blame(("in_backward: not with accumulate = %d: the first of the batches would make the update already"):format(state.accumulate))
      end
      if state.nonfinite == "rollback" then
        blame "in_backward: not with nonfinite = \"rollback\": an update of which a part has been made cannot be skipped"
      end
    end
  end
end

-- What happens when a loss or a gradient is not finite: the config says, or the optimizer that the script built.
local function choose_nonfinite(state)
  if state.manual then
    state.nonfinite = join_nonfinite(state.config)
  else
    local own = rawget(state.optimizers, "_options")
    state.nonfinite = own and own.nonfinite or "error"
    if (state.config.optimizer or {}).nonfinite == "rollback" then state.nonfinite = "rollback" end
  end
  if state.nonfinite ~= "rollback" then return end
  for _, optimizer in pairs(state.manual and state.optimizers or { state.optimizers }) do
    if optimizer._clip then optimizer._clip.measure, optimizer._clip.skip = true, true end
  end
end

-- Optimizers and schedulers: as the spec or the model builds them.
local function build_optimizers(state)
  local spec, cfg, model = state.spec, state.config, state.model
  if type(model.configure_optimizers) == "function" and not spec:replaces "build_optimizers" then
    state.optimizers, state.lr_schedulers = model:configure_optimizers(build.injected(cfg, state.training_steps))
    if state.optimizers == nil then blame "configure_optimizers returns optimizers, and schedulers if there are some" end
  else
    state.optimizers = spec:call("build_optimizers", state.model_parts, cfg)
    local found = state.optimizers
    if type(found) ~= "table" or type(found.step) == "function" and not found._groups then
      blame(("build_optimizers returns an optimizer of this library (one of your own making stands in an optim.wrapper), not %s")
        :format(type(found) == "table" and "another object" or tostring(found)))
    end
  end
  if cfg.optimizers and type(model.configure_optimizers) ~= "function" and not spec:replaces "build_optimizers" then
    blame "optimizers: nothing reads this section: the model has no configure_optimizers, and the spec no build_optimizers"
  end
  if cfg.lr_schedulers and type(model.configure_optimizers) ~= "function" and not spec:replaces "build_lr_schedulers" then
    blame "lr_schedulers: nothing reads this section: the model has no configure_optimizers, and the spec no build_lr_schedulers"
  end
  state.manual = type(state.optimizers.step) ~= "function"
  if not state.lr_schedulers and not state.manual then
    state.lr_schedulers = spec:call("build_lr_schedulers", state.optimizers, cfg, state.training_steps)
  end
  if state.lr_schedulers ~= nil and type(state.lr_schedulers) ~= "table" then
    blame("build_lr_schedulers returns a scheduler, a list of them, or nothing, not a " .. type(state.lr_schedulers))
  end
  if state.manual and not spec:replaces "train_step" then
    blame "the model makes several optimizers; the spec needs a train_step that makes the updates"
  end
  choose_nonfinite(state)
  check_backward(state)
end

--- Builds everything that a run needs.
---@param spec optlua.Spec
---@param cfg table the finished config
---@param opts? { overfit_batches?: integer, quiet?: boolean, limit?: integer } limit: of updates that are made, whatever the config says
---@return optlua.State
function run.build(spec, cfg, opts)
  opts = opts or {}
  optlua.manual_seed(cfg.seed)
  local train, validation = build_data(spec, cfg)
  if opts.overfit_batches then
    local items = {}
    for i = 1, math.min(train.n, opts.overfit_batches * cfg.batch_size) do items[i] = i end
    train = optlua.data.subset(train, items)
    validation = validation and train
  end
  local parts = spec:call("build_model", cfg, train)
  local state = states.new { spec = spec, config = cfg, train = train, validation = validation, model_parts = parts,
    model = join_parts(parts), overfit_batches = opts.overfit_batches, accumulate = cfg.accumulate, quiet = opts.quiet,
    limit = opts.limit }
  state.loss_fn = spec:call("build_loss", cfg)
  if not require("optlua.options").is_callable(state.loss_fn) and not (state.loss_fn == nil and spec:replaces "train_step" and not validation) then
    blame("build_loss returns a function (output, target), not a " .. type(state.loss_fn))
  end
  if not validation and (cfg.patience or cfg.monitor) then
    blame(("%s: there is no validation set to look at"):format(cfg.patience and "patience" or "monitor"))
  end
  state.loader = optlua.data.loader(train, { batch_size = cfg.batch_size, shuffle = cfg.shuffle and not opts.overfit_batches,
    seed = cfg.seed })
  if #state.loader == 0 then blame "build_data: the training set gives no batch" end
  state.training_steps = count_steps(state)
  choose_monitor(state)
  build_optimizers(state)
  return state
end

local function result_of(state)
  return { steps = state.step, loss = state.loss, validation = state.results, best = state.best, model = state.model,
    state = state, stopped = state.stopped, signal = state.signal }
end

-- What cannot be written is said, and the run goes on.
local function complain_to(state)
  return function(path, problem) state.log_file:fail(path, problem) end
end

-- Makes a folder that of this run: a lock, to be closed. A run that is there already is not written over.
local function take_folder(state, from)
  local locked, lock = uninterrupted(pcall, lock_folder, state.out)
  if not locked then
    complain_to(state)(state.out .. "/lock", lock)
  elseif not lock then
    blame(("%s: another run is in this folder"):format(state.out))
  end
  local is_used = folder.is_used(state.out)
  if is_used and not from then
    blame(("%s holds a run already; --resume goes on with it, another --out begins a new one"):format(state.out))
  elseif is_used and not resume.is_own(from, state.out) then
    blame(("%s holds another run than that of %s; another --out takes what goes on"):format(state.out, from))
  end
  folder.sweep(state.out)
  folders.sweep(keeper.place_of(state))
  return locked and lock or nil
end

-- Makes the folder of a run, which `out` names or gives; whether it is new.
local function make_folder(state, out)
  if type(out) == "function" then
    state.out = out()
    return true
  end
  state.out = out and folder.clean(out)
  return out ~= nil and folder.make(state.out)
end

-- A run that fails before its first update takes a new folder away again, when this is closed.
local function remover(state)
  return closing(function(problem)
    if problem ~= nil and not state.updated_in then folders.remove(state.out) end
  end)
end

-- Begins with the weights of a file.
local function begin_from(model, path, surgery)
  if surgery then return loading.load_weights(path, model, surgery) end
  model:load(path)
end

-- Goes on from a checkpoint, where there is one to go on from; the folder changes when all of it has been loaded.
local function begin(state, config, opts)
  if opts.resume then
    resume.load(state, opts.resume, opts.policy, opts.surgery)
    state.limit = state.limit and state.limit + state.step
    local later = state.out and resume.later(state, opts.resume)
    state.is_passed = later and #later > 0 and loop.is_complete(state)
    if state.is_passed then return end -- nothing is done, and all stays as it is
    if state.out then resume.drop_later(state, later) end
  end
  local is_again = state.out and not opts.resume and folder.is_begun(state.out) -- by a run killed before it had anything
  if is_again then log.drop_later(state.out, -1, complain_to(state)) end
  if state.out then folder.fill(state.out, state.spec, config, complain_to(state)) end
end

--- Trains.
---@param spec optlua.Spec
---@param cfg table
---@param config optlua.Config
---@param opts { out?: string|(fun(): string), quiet?: boolean, overfit_batches?: integer, from?: string, resume?: string, policy?: string, prepare?: function }
---@return table result
function run.train(spec, cfg, config, opts)
  local state = run.build(spec, cfg, opts)
  if opts.from then begin_from(state.model, opts.from, opts.surgery) end
  state.config_text = config:text()
  local is_new = make_folder(state, opts.out)
  state.log_file = log.new(nil)
  local lock <close> = state.out and take_folder(state, opts.resume) or nil -- luacheck: ignore (held until the end)
  local begun <close> = is_new and remover(state) or nil -- luacheck: ignore (while the lock is held)
  begin(state, config, opts)
  local log_file <close> = log.new(state.out, { tensorboard = cfg.tensorboard })
  log_file:take_over(state.log_file)
  state.log_file = log_file
  if opts.resume or not is_new then log_file:resume(state.step + 1) end
  if opts.prepare then opts.prepare(state) end
  local signalled <close> = signals.watch(not opts.quiet and state.out
    and "optlua: saving a checkpoint after this update; again to quit without it" or nil)
  state.signalled = signalled
  state.model:train()
  loop.run(state)
  if not state.is_passed then evaluation.around(state, loop.save, state, "last.safetensors") end
  log_file:close()
  state.log_failed = log_file.failed
  if state.saved and state.out then
    local lost = state.step - state.saved
    state:say("the run is in %s; --resume %s goes on with it%s", state.out, state.out,
      lost > 0 and (" from step %d: the last %d updates are in no checkpoint"):format(state.saved, lost) or "")
  elseif state.out then
    state:say("the run is in %s", state.out)
  end
  return result_of(state)
end

return run
