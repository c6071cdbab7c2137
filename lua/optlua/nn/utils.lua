--- utils: what is done to the parameters of a model as a whole.
return {
  clip_grad_norm_ = require("optlua.optim.clip").clip_grad_norm_,
}
