-- Transfer: what a network has learnt on some classes helps it with others.
-- A network learns the clothes 0 to 4 of Fashion-MNIST. Then its body is frozen and a new head learns the classes
-- 5 to 9 from a few images; then both are tuned together. Frozen parameters sleep in the optimizer: no gradient, no
-- state, no update, until requires_grad_ wakes them.
--   apt-get install dataset-fashion-mnist
--   optlua scripts/transfer.lua
--   optlua scripts/transfer.lua --items 5000 --few 20 --epochs 1
local optlua = require "optlua"
local nn, optim, data = optlua.nn, optlua.optim, optlua.data

local config = optlua.config {
  seed = 0, items = 20000, few = 50, epochs = 2, lr = 2e-3,
  root = optlua.arg { type = "string", doc = "folder of the four IDX files; default: that of Debian's package" },
}
optlua.manual_seed(config.seed)

local train, test = data.fashion_mnist { root = config.root }

--- The first n items of five classes, which are counted from 0 again.
local function classes(set, first, n)
  local places = set.targets:ge(first):logical_and(set.targets:lt(first + 5)):nonzero():squeeze(2)
  local images, labels = set.batch(places:narrow(1, 1, math.min(n, #places)))              -- (N,1,28,28), (N)
  return data.tensors(images, labels - first)
end
local old, old_test = classes(train, 0, config.items), classes(test, 0, test.n)
local new, new_test = classes(train, 5, config.few), classes(test, 5, test.n)

local function stage(channels)
  return nn.Sequential { nn.Conv2d(channels, 32, 3, { padding = 1 }), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2) }
end
local function make_body() return nn.Sequential { stage(1), stage(32), stage(32), nn.Flatten() } end   -- (B,288)
local function make_head() return nn.Linear(288, 5) end

--- An optimizer for a body and a head, each with a rate of its own.
local function optimizer_of(body, head, body_lr)
  return optim.container({ { "body", body }, { "head", head } }, {
    { name = "body", match = "body.*", class = optim.AdamW, lr = body_lr },
    { name = "head", match = "head.*", class = optim.AdamW, lr = config.lr },
  })
end

--- How many numbers an optimizer keeps: two for each element of a parameter that it has ever updated.
local function kept(optimizers)
  local count = 0
  for _, value in pairs(optimizers:state_dict()) do
    if optlua.is_tensor(value) then count = count + value:numel() end
  end
  return count
end

--- Trains and prints the accuracy on test images.
local function fit(lesson, model, optimizers, set, test_set, epochs)
  local loader = data.loader(set, { batch_size = 32, shuffle = true })
  for _ = 1, epochs do
    for images, labels in loader:batches() do
      local loss = nn.functional.cross_entropy(model(images), labels)
      optimizers:zero_grad()
      loss:backward()
      optimizers:step()
    end
  end
  local result = optlua.evaluate(model, test_set, { accuracy = optlua.metrics.accuracy() })
  print(("%-44s accuracy %.4f  kept by the optimizer %6d"):format(lesson, result.accuracy, kept(optimizers)))
end

local body, head = make_body(), make_head()
fit("classes 0 to 4", nn.Sequential { body, head }, optimizer_of(body, head, config.lr), old, old_test, config.epochs)

local fresh, fresh_head = make_body(), make_head()
fit(("classes 5 to 9, %d images, from nothing"):format(new.n), nn.Sequential { fresh, fresh_head },
  optimizer_of(fresh, fresh_head, config.lr), new, new_test, 20)

head = make_head()
local model = nn.Sequential { body, head }
local optimizers = optimizer_of(body, head, config.lr / 4)
body:requires_grad_(false):eval()                          -- eval: batch norms keep their statistics, too
fit("body frozen, a new head", model, optimizers, new, new_test, 20)

body:requires_grad_(true):train()
fit("body woken", model, optimizers, new, new_test, 20)
