-- resumed: trains with each optimizer and each schedule of the registries, from one step to another: begins, or goes on from
-- the checkpoint of another process, and leaves one. Prints a line for each, from which any difference in bits is seen. Run by
-- tests/resume_spec.lua:
--
--   optlua tests/resumed.lua FOLDER FROM TO
package.path = "tests/?.lua;" .. package.path
local optlua = require "optlua"
local bits = require "bits"
local schedules = require "schedules"
local nn, optim, checkpoint = optlua.nn, optlua.optim, optlua.checkpoint

local place, from, to = arg[1], tonumber(arg[2]), tonumber(arg[3])
local AN_EPOCH = 7 -- steps
local points = optlua.testing.points { n = 2 * AN_EPOCH * 3 }

local function build(class, schedule)
  optlua.manual_seed(11)
  local model = nn.Sequential { nn.Linear(4, 6, { bias = false }), nn.Dropout(0.3), nn.BatchNorm1d(6, { affine = false }),
    nn.Linear(6, 3, { bias = false }) }
  local limits = { ema = 0.9 }
  if not optim.resolve(class).step then
    limits = { ema = 0.9, max_norm = 1, max_group_norm = 0.9, agc = 0.5, clip_value = 0.25, grad_scale = 0.5 }
  end
  local optimizer = optim.container(model, {
    { name = "late", match = "0.*", class = class, unfreeze_at = 9 },
    { name = "rest", match = "*", class = class },
  }, limits)
  return { model = model, optimizer = optimizer, scheduler = optim.lr_scheduler(optimizer, schedules.build(schedule)),
    loader = optlua.data.loader(points, { batch_size = 3, shuffle = true, seed = 5 }) }
end

-- One update: of a window of two batches.
local function step(parts, batches)
  local window = { { batches() }, { batches() } }
  parts.optimizer:step(function()
    local sum = 0
    parts.optimizer:zero_grad()
    for _, batch in ipairs(window) do
      local loss = nn.functional.cross_entropy(parts.model(batch[1]), batch[2])
      loss:backward()
      sum = sum + loss:item()
    end
    return sum
  end)
end

local function train(parts)
  local batches = parts.loader:batches()
  for k = from + 1, to do
    step(parts, batches)
    if k % AN_EPOCH == 0 then
      assert(batches() == nil)
      parts.scheduler:step(1 / k)
      batches = parts.loader:batches()
    end
  end
end

local function digest(parts)
  local sum = 0
  for c in bits(parts.model, parts.optimizer):gmatch "." do sum = (sum * 31 + c:byte()) % (1 << 52) end
  return ("%d %s"):format(sum, table.concat(parts.scheduler:get_last_lr(), " "))
end

local function try(class, schedule)
  local parts, path = build(class, schedule), ("%s/%s-%s-%%d"):format(place, class, schedule)
  if from > 0 then checkpoint.load(path:format(from), parts) end
  train(parts)
  checkpoint.save(path:format(to), parts)
  print(("%s %s: %s"):format(class, schedule, digest(parts)))
end

for _, class in ipairs(optim.list()) do try(class, "cosine") end
for _, class in ipairs { "Centralize(SGD)", "Lookahead(AdamW)", "SWA(SGD)" } do try(class, "cosine") end
for _, schedule in ipairs(schedules.names()) do try("AdamW", schedule) end
