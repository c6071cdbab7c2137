-- Distillation: a small network learns from a large one what its own images do not show.
-- Both students see the same digits, none of them a 3. One learns from labels and never guesses 3; the other learns
-- from the teacher's answers, whose small numbers say what looks like a 3, and so knows a 3 when it meets one
-- (Hinton, Vinyals & Dean, 2015, "Distilling the knowledge in a neural network").
--   optlua scripts/distill.lua
--   optlua scripts/distill.lua --digit 8 --student 16 --epochs 100
local optlua = require "optlua"
local nn, optim, data = optlua.nn, optlua.optim, optlua.data

local config = optlua.config {
  seed = 0, epochs = 60, teacher = 256, student = 32, digit = 3, temperature = 20, noise = 0.25,
}
optlua.manual_seed(config.seed)

local train, test = data.digits()
local _, labels = train.batch(optlua.arange(0, train.n))
local others = data.subset(train, labels:ne(config.digit):nonzero():squeeze(2))

local function size(model)
  local count = 0
  for _, parameter in model:named_parameters() do count = count + parameter:numel() end
  return count
end

--- Trains on noisy images; `loss_of(output, x, y)` says what is wrong with an output.
local function fit(model, set, epochs, loss_of)
  local loader = data.loader(set, { batch_size = 32, shuffle = true })
  local optimizer = optim.container(model, optim.AdamW, { lr = 3e-3 })
  optim.lr_scheduler(optimizer, optlua.schedule.linear { to = 0, steps = epochs * #loader })
  for _ = 1, epochs do
    for x, y in loader:batches() do
      x = x + config.noise * optlua.randn_like(x)
      local loss = loss_of(model(x), x, y)
      optimizer:zero_grad()
      loss:backward()
      optimizer:step()
    end
  end
  return model:eval()
end

--- Prints how many images of the test set are named rightly, and how many of the digit in question.
local function report(name, model)
  local x, y = test.batch(optlua.arange(0, test.n))
  local right, asked = optlua.no_grad(model, x):argmax(2):eq(y), y:eq(config.digit)
  print(("%-24s %6d parameters  accuracy %.4f  on the %ds %.4f"):format(name, size(model),
    right:to("float32"):mean():item(), config.digit, right:masked_select(asked):to("float32"):mean():item()))
end

local function from_labels(output, _, y) return nn.functional.cross_entropy(output, y) end

local width = config.teacher
local teacher = nn.Sequential {
  nn.Linear(64, width), nn.ReLU(), nn.Dropout(0.5),
  nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.5),
  nn.Linear(width, 10),
}
report("teacher", fit(teacher, train, math.ceil(config.epochs / 2), from_labels))

--- At a high temperature the teacher's answer tells how much an image looks like every other digit.
local function from_teacher(output, x)
  local soft = (optlua.no_grad(teacher, x) / config.temperature):softmax(2)
  return config.temperature ^ 2 * nn.functional.cross_entropy(output / config.temperature, soft)
end

for _, lesson in ipairs { { "student of the labels", from_labels }, { "student of the teacher", from_teacher } } do
  optlua.manual_seed(config.seed)                          -- the same first weights, order and noise for both
  local student = nn.Sequential { nn.Linear(64, config.student), nn.ReLU(), nn.Linear(config.student, 10) }
  report(lesson[1], fit(student, others, config.epochs, lesson[2]))
end
