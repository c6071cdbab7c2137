--- datasets: data by name, for configs: `data = { class = "digits" }`. What is registered returns a training set and, where
--- there is one, a validation set.
local datasets, made = require("optlua.factory").module "dataset"
datasets._factory = made

-- The factory hands on one value: both sets stand in a list.
datasets.register("digits", {}, function() return table.pack(require("optlua.data").digits()) end)

return datasets
