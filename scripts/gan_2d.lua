-- Two networks against each other: points on a ring of eight clusters. The model makes its two optimizers from the
-- config, which reaches each by name.
--   optlua scripts/gan_2d.lua
--   optlua scripts/gan_2d.lua --optimizers.gen.lr=5e-4 --lr_schedulers.gen=cosine
local optlua = require "optlua"
local nn, data = optlua.nn, optlua.data

local MODES, NOISE = 8, 4

local function mlp(inputs, outputs)
  return nn.Sequential { nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs) }
end

local Gan = nn.class "Gan"
function Gan:init()
  self.gen  = mlp(NOISE, 2)
  self.disc = mlp(2, 1)
end
function Gan:forward(count) return self.gen(optlua.randn { count, NOISE }) end

function Gan:configure_optimizers(make)
  local optimizers = { gen = make.optimizers.gen(self.gen), disc = make.optimizers.disc(self.disc) }
  return optimizers, { gen = make.lr_schedulers.gen(optimizers.gen) }
end

local function centres()
  local angle = optlua.arange(0, MODES):to "float32" * (2 * math.pi / MODES)
  return optlua.stack({ angle:cos(), angle:sin() }, { dim = 2 })           -- (MODES, 2)
end

-- How far samples are from their nearest centre, and how many centres have samples near.
local function judge(points)
  local distance = (points:unsqueeze(2) - centres():unsqueeze(1)):square():sum(3):sqrt()   -- (N, MODES)
  local nearest, which = distance:min(2)
  local found = {}
  for i, k in ipairs(which:totable()) do
    if nearest[i]:item() < 0.2 then found[k] = true end
  end
  local count = 0
  for _ in pairs(found) do count = count + 1 end
  return nearest:mean():item(), count
end

return optlua.spec {
  name = "gan-2d",
  config = {
    seed = 1, steps = 3000, batch_size = 128, log_every = 10,
    optimizers = { gen = { class = "Adam", lr = 1e-3, betas = { 0.5, 0.999 } }, disc = { class = "Adam", lr = 1e-3, betas = { 0.5, 0.999 } } },
    lr_schedulers = { gen = { class = "linear", to = 0.1 } },
  },
  build_data = function(cfg)
    optlua.manual_seed(cfg.seed)
    local which = optlua.randint(0, MODES, { 4096 })
    return data.tensors(centres():index_select(1, which) + 0.05 * optlua.randn { 4096, 2 })
  end,
  build_model = function(cfg) return Gan() end,
  build_loss = function(cfg) return nn.functional.binary_cross_entropy_with_logits end,

  train_step = function(state, batch)
    local model, loss_fn, optimizers = state.model, state.loss_fn, state.optimizers
    local real, fake = batch[1], model(#batch[1])
    local ones, zeros = optlua.ones { #real, 1 }, optlua.zeros { #real, 1 }

    optimizers.disc:zero_grad()
    local disc_loss = loss_fn(model.disc(real), ones) + loss_fn(model.disc(fake:detach()), zeros)
    disc_loss:backward()
    optimizers.disc:step()

    optimizers.gen:zero_grad()
    local gen_loss = loss_fn(model.disc(fake), ones)
    gen_loss:backward()
    optimizers.gen:step()

    state:log("disc_loss", disc_loss)
    return gen_loss
  end,

  on_end = function(state)
    local distance, found = judge(optlua.no_grad(state.model, 1000))
    print(("distance to the nearest cluster %.3f, clusters found %d of %d"):format(distance, found, MODES))
  end,
}
