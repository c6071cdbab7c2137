-- A convolutional network that names clothes: Fashion-MNIST, 70,000 images of 28x28 pixels, ten classes.
--   apt-get install dataset-fashion-mnist
--   optlua scripts/fashion.lua                              (0.92 on the test images in a minute or two)
--   optlua scripts/fashion.lua --epochs 1 --items 6000 --save fashion.safetensors
local optlua = require "optlua"
local nn, optim, data, schedule = optlua.nn, optlua.optim, optlua.data, optlua.schedule

local config = optlua.config {
  seed = 0, epochs = 4, batch_size = 64, lr = 3e-3, warmup = 100, items = 60000,
  root = optlua.arg { type = "string", doc = "folder of the four IDX files; default: that of Debian's package" },
  save = optlua.arg { type = "string", doc = "file for what was learnt" },
}
optlua.manual_seed(config.seed)

local train, test = data.fashion_mnist { root = config.root }   -- images (1,28,28) in 0..1, labels 0..9
train = data.subset(train, optlua.arange(0, math.min(config.items, train.n)))
local loader = data.loader(train, { batch_size = config.batch_size, shuffle = true })

local model = nn.Sequential {
  nn.Conv2d(1, 16, 3, { padding = 1 }),  nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),   -- (B,16,14,14)
  nn.Conv2d(16, 32, 3, { padding = 1 }), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),   -- (B,32,7,7)
  nn.Flatten(),                                                                            -- (B,1568)
  nn.Linear(1568, 64), nn.ReLU(),
  nn.Linear(64, 10),
}
local optimizers = optim.container(model, {
  { name = "weights", match = { role = "weight" }, class = optim.AdamW, lr = config.lr, weight_decay = 1e-2 },
  { name = "rest",    match = "*",                 class = optim.AdamW, lr = config.lr, weight_decay = 0 },
})

local steps = config.epochs * #loader                      -- the rate rises at first, and falls to 0 in the end
optim.lr_scheduler(optimizers, schedule.warmup { steps = config.warmup } * schedule.linear { to = 0, steps = steps })

--- A metric of one's own: what share of each class is named rightly.
local function by_class(classes)
  local right, all
  return {
    reset = function() right, all = optlua.zeros(classes), optlua.zeros(classes) end,
    update = function(_, output, labels)
      right:index_add_(1, labels, output:argmax(2):eq(labels):to "float32")
      all:index_add_(1, labels, optlua.ones(#labels))
    end,
    compute = function() return (right / all):totable() end,
  }
end

local metrics = { accuracy = optlua.metrics.accuracy(), by_class = by_class(#test.classes) }
local began, result = os.time(), nil
for epoch = 1, config.epochs do
  local total = 0
  for images, labels in loader:batches() do
    local loss = nn.functional.cross_entropy(model(images), labels)
    optimizers:zero_grad()
    loss:backward()
    optimizers:step()
    total = total + loss:item()
  end
  result = optlua.evaluate(model, test, metrics)
  print(("epoch %d  loss %.4f  test accuracy %.4f  %4d s"):format(
    epoch, total / #loader, result.accuracy, os.difftime(os.time(), began)))
end

for i, class in ipairs(test.classes) do print(("%-12s %.3f"):format(class, result.by_class[i])) end
if config.save then model:save(config.save) end
