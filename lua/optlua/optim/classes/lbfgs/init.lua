--- L-BFGS (Liu & Nocedal, 1989, "On the limited memory BFGS method for large scale optimization"): directions as Newton's, made of
--- the last changes of parameters and gradients; with or without a line search. Options and defaults as in PyTorch 2.13.
---
--- It needs a closure, which it calls several times a step, and which has to give the same loss for the same parameters:
--- that of all data, or of one large batch. Each group is minimised by itself. It keeps 2 * history_size copies of its parameters,
--- twice as many during a step, which may fail; where other parameters have a gradient than before, it begins anew.
local optim = require "optlua.optim"
local search = require "optlua.optim.classes.lbfgs.linesearch"
local vector = require "optlua.optim.classes.lbfgs.vector"

-- What is known from the steps before: vectors from the states of parameters, numbers from that of the group.
local vectors = { "d", "prev_grad" }
local numbers = { "t", "H_diag", "prev_loss", "n_iter" }
local histories = { "old_dirs", "old_stps" }

local function same(a, b) return table.concat(a or {}, "\n") == table.concat(b, "\n") end

-- The parameters that are moved: those with a gradient.
local function select_params(group)
  local params, names = {}, {}
  for i, p in ipairs(group.params) do
    if p.grad and p:numel() > 0 then params[#params + 1], names[#names + 1] = p, group.names[i] end
  end
  return params, names
end

local function recall(group)
  local memory = { n_iter = 0 }
  memory.params, memory.names = select_params(group)
  if #memory.names == 0 or not same(group.state.names, memory.names) then return memory end
  for _, name in ipairs(numbers) do memory[name] = group.state[name] end
  memory.ro = table.move(group.state.ro, 1, #group.state.ro, 1, {})
  for _, name in ipairs(vectors) do memory[name] = {} end
  for _, name in ipairs(histories) do
    memory[name] = {}
    for k = 1, #memory.ro do memory[name][k] = {} end
  end
  for i, p in ipairs(memory.params) do
    local s = group.state[p]
    for _, name in ipairs(vectors) do memory[name][i] = s[name] end
    for _, name in ipairs(histories) do
      for k, x in ipairs(memory[name]) do x[i] = s[name][k] end
    end
  end
  return memory
end

local function remember(group, memory)
  if memory.n_iter == 0 then return end
  for _, name in ipairs(numbers) do group.state[name] = memory[name] end
  group.state.ro, group.state.names = memory.ro, memory.names
  for i, p in ipairs(memory.params) do
    local s = group.state[p]
    for _, name in ipairs(vectors) do s[name] = memory[name][i] end
    for _, name in ipairs(histories) do
      s[name] = {}
      for k, x in ipairs(memory[name]) do s[name][k] = x[i] end
    end
  end
end

-- Notes how the gradient has changed along the last step.
local function note_change(memory, grad, size)
  local y, s = vector.difference(grad, memory.prev_grad), vector.scale(memory.t, memory.d)
  local ys = vector.dot(y, s)
  if ys <= 1e-10 then return end
  if #memory.ro == size then
    for _, list in ipairs { memory.old_dirs, memory.old_stps, memory.ro } do table.remove(list, 1) end
  end
  table.insert(memory.old_dirs, y)
  table.insert(memory.old_stps, s)
  table.insert(memory.ro, 1 / ys)
  memory.H_diag = ys / vector.dot(y, y)
end

-- Minus the gradient times the approximate inverse of the Hessian: two loops over the history.
local function direct(memory, grad)
  local d, al = vector.scale(-1, grad), {}
  for k = #memory.ro, 1, -1 do
    al[k] = vector.dot(memory.old_stps[k], d) * memory.ro[k]
    vector.add(d, -al[k], memory.old_dirs[k])
  end
  d = vector.scale(memory.H_diag, d)
  for k = 1, #memory.ro do
    vector.add(d, al[k] - vector.dot(memory.old_dirs[k], d) * memory.ro[k], memory.old_stps[k])
  end
  return d
end

-- Chooses a direction and a first length for it.
local function turn(memory, now, group)
  memory.n_iter = memory.n_iter + 1
  if memory.n_iter == 1 then
    memory.old_dirs, memory.old_stps, memory.ro, memory.H_diag = {}, {}, {}, 1
    memory.d, memory.t = vector.scale(-1, now.grad), math.min(1, 1 / vector.norm1(now.grad)) * group.lr
  else
    note_change(memory, now.grad, group.history_size)
    memory.d, memory.t = direct(memory, now.grad), group.lr
  end
  memory.prev_grad, memory.prev_loss = now.grad, now.f
end

-- Finds a length for the step, and makes it: the point that was reached, and the evaluations.
local function move(memory, now, group, evaluate, limit)
  local params, d = memory.params, memory.d
  local x = vector.clone(params)
  local point, count = search(function(t)
    vector.add(params, t, d)
    local point = evaluate()
    vector.assign(params, x)
    point.t, point.slope = t, vector.dot(point.grad, d)
    return point
  end, now, memory.t, { limit = limit, size = vector.largest(d), tolerance = group.tolerance_change })
  memory.t = point.t
  vector.add(params, point.t, d)
  return point, count
end

-- Whether there is nothing more to be gained in this step.
local function is_over(memory, now, group)
  return vector.largest(now.grad) <= group.tolerance_grad or vector.largest(memory.d) * math.abs(memory.t) <= group.tolerance_change
    or math.abs(now.f - memory.prev_loss) < group.tolerance_change
end

local function minimise(memory, now, group, evaluate)
  local max_eval = group.max_eval > 0 and group.max_eval or group.max_iter * 5 // 4
  local evals = 1
  if vector.largest(now.grad) <= group.tolerance_grad then return end
  for i = 1, group.max_iter do
    turn(memory, now, group)
    now.t, now.slope = 0, vector.dot(now.grad, memory.d)
    if now.slope > -group.tolerance_change then return end
    if group.line_search_fn == "strong_wolfe" then
      local count
      now, count = move(memory, now, group, evaluate, max_eval - evals)
      evals = evals + count
    else
      vector.add(memory.params, memory.t, memory.d)
      if i == group.max_iter then return end
      now, evals = evaluate(), evals + 1
    end
    if evals >= max_eval or is_over(memory, now, group) then return end
  end
end

return optim.define {
  name = "LBFGS",
  doc = "directions as Newton's, from the last gradients; calls its closure several times a step",
  hyper = {
    lr = { default = 1, min = 0, doc = "the length of a step, and what a line search tries first; the very first step is shorter" },
    max_iter = { default = 20, min = 1, integer = true, doc = "directions in a step" },
    max_eval = { default = 0, min = 0, integer = true, doc = "evaluations after which no iteration begins; 0: 5/4 of max_iter" },
    tolerance_grad = { default = 1e-7, min = 0, doc = "it stops when no gradient is larger" },
    tolerance_change = { default = 1e-9, min = 0, doc = "it stops when neither a parameter nor the loss changes by more" },
    history_size = { default = 100, min = 1, integer = true, doc = "how many of the last changes are kept" },
    line_search_fn = { default = "none", choices = { "none", "strong_wolfe" },
      doc = "how the length is searched; \"none\" is PyTorch's None" },
  },
  needs_closure = true,
  step = function(_, group, closure)
    local function evaluate()
      group.state.func_evals = (group.state.func_evals or 0) + 1
      return closure()
    end
    local loss = evaluate()
    local memory = recall(group)
    minimise(memory, { f = loss, grad = vector.gradients(memory.params) }, group, function()
      return { f = evaluate(), grad = vector.gradients(memory.params) }
    end)
    remember(group, memory)
  end,
}
