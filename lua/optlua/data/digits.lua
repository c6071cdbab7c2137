--- digits: 1,797 handwritten digits of 8x8 pixels, which ship with optlua.
--
-- Source: the test part of "Optical Recognition of Handwritten Digits" (E. Alpaydin, C. Kaynak, 1998), UCI
-- Machine Learning Repository, doi 10.24432/C50P49, licence CC BY 4.0, in the form that scikit-learn
-- distributes.
local host = require("optlua.core").hidden
local csv = require("optlua.data.csv").csv
local dataset = require "optlua.data.dataset"

local TRAIN = 1437 -- items of the first part; the other 360 are for testing
local SPLIT = 1    -- seed of the order that is cut in two

--- The folder of this file, in which the data lies.
local folder = debug.getinfo(1, "S").source:match "^@(.*)[/\\]" or "."

--- The handwritten digits, in a fixed shuffled split: training (1,437 items) and test (360). An item is
--- an image, float32 (64) in 0 … 1, and a label, int64 0 … 9.
---@return data.Dataset train
---@return data.Dataset test
local function digits()
  local rows = csv(folder .. "/digits.csv.gz", { header = false, types = "integer", target = 65 })
  local images, labels = rows.batch(host.permutation(#rows, SPLIT, 0))
  local rest = #rows - TRAIN
  images = images / 16
  local train = dataset.tensors(images:narrow(1, 1, TRAIN), labels:narrow(1, 1, TRAIN))
  local test = dataset.tensors(images:narrow(1, TRAIN + 1, rest), labels:narrow(1, TRAIN + 1, rest))
  return train, test
end

return { digits = digits }
