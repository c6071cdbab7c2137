--- models: models by name, for configs: `model = { class = "mlp", width = 64 }` after
--- `optlua.models.register("mlp", { width = 128 }, function(args) return nn.Sequential { … } end)`.
local models, made = require("optlua.factory").module "model"
models._factory = made

return models
