/* op: the descriptor of an operation.
 *
 * An op is one descriptor in a file of ops/: its name, documentation, parameters, forward and
 * backward function, and the samples that the shared tests run it on. The binding, the checks of
 * arguments, the documentation and the tests are made from it. To add an op is to add a
 * descriptor. */
#ifndef OL_AUTOGRAD_OP_H
#define OL_AUTOGRAD_OP_H

#include "tensor/tensor.h"

#define OL_MAX_PARAMS  10
#define OL_MAX_OUTPUTS 3
#define OL_MAX_KEPT    3

/* What a parameter takes, and where its value is found in an ol_value. */
typedef enum ol_kind {
  OL_TENSOR,  /* tensor                a tensor */
  OL_OPERAND, /* tensor                a tensor, or a number that becomes a 0-d tensor of the
                                       dtype of the other operand where it fits */
  OL_TENSORS, /* tensors               a non-empty list of tensors */
  OL_NUMBER,  /* number                a number */
  OL_DATA,    /* integer               an integer that is data: a count, a size, a class */
  OL_INDEX,   /* integer               a dimension or position: typed from 1, here from 0;
                                       negative from the end */
  OL_SIZES,   /* list                  integers that are data: a shape; or, where there are
                                       .choices, one of those words: ndim is then -1 less its
                                       position */
  OL_DIMS,    /* list                  dimensions, as OL_INDEX; one may be given without {} */
  OL_FLAG,    /* flag                  true or false */
  OL_TYPE,    /* dtype                 a dtype by its name */
  OL_CHOICE,  /* choice                one of the words in .choices, by position */
} ol_kind;

typedef struct ol_param {
  const char *name;
  ol_kind kind;
  bool optional;       /* may be left out: given is then false, and the value is .preset */
  double preset;       /* of numbers, integers (index: as typed, 0 = none), flags, choices */
  const char *choices; /* of OL_CHOICE, and words beside an OL_SIZES: "none|mean|sum" */
  const char *doc;     /* shape, unit, meaning; one line */
} ol_param;

typedef struct ol_value {
  bool given;
  union {
    ol_tensor *tensor; /* NULL when not given */
    double number;
    int64_t integer;
    bool flag;
    ol_dtype dtype;
    int choice;
    ol_shape list; /* ndim = its length */
    struct {
      ol_tensor **item;
      int count;
    } tensors;
  };
} ol_value;

/* One call of forward. Tensors in args are borrowed. */
typedef struct ol_call {
  const struct ol_op *op;
  ol_value arg[OL_MAX_PARAMS];
  ol_tensor *out[OL_MAX_OUTPUTS]; /* made by forward: one reference each */
  ol_tensor *kept[OL_MAX_KEPT];   /* made by forward for backward only, e.g. a mask; may be NULL */
  bool recording;                 /* whether backward may follow: kept is worth making */
} ol_call;

/* One call of backward. Inputs are numbered through all tensor parameters in order; each tensor of
 * a list counts. */
typedef struct ol_back {
  const struct ol_op *op;
  const ol_value *arg;   /* as in forward; tensors that the op does not save are NULL */
  ol_tensor *const *out; /* outputs that the op saves, others NULL */
  ol_tensor *const *kept;
  ol_tensor *const *grad_out; /* gradient of each output, of its shape; NULL where absent */
  int inputs;
  const ol_shape *const *shape; /* of each input */
  const ol_dtype *dtype;        /* of each input */
  const bool *needs;            /* whether input i wants a gradient */
  ol_tensor *const *leaf;       /* input i where it is a leaf, else NULL; for ol_back_new */
  ol_tensor **grad; /* to be made where needed: one reference each. Of the input's shape,
                       or of one that it broadcasts to: the tape sums it back. NULL: zero */
} ol_back;

/* What is kept for backward: bits for ol_op.saves. Parameter i (by its place); output i; parameter
 * i where another input wants a gradient (x * y needs x for the gradient of y alone). */
#define OL_SAVE_ARG(i)        (1u << (i))
#define OL_SAVE_OUT(i)        (1u << (16 + (i)))
#define OL_SAVE_FOR_OTHERS(i) (1u << (20 + (i)))

enum {
  OL_OP_RANDOM = 1,   /* draws random numbers: no golden numbers */
  OL_OP_VIEW = 2,     /* its output shares the storage of its first tensor */
  OL_OP_INPLACE = 4,  /* writes its first tensor and returns it; forward puts it into out[0] with a
                         reference more and touches it. Name ends in _ */
  OL_OP_FUNCTION = 8, /* a function of the module only, not a method */
  OL_OP_HIDDEN = 16,  /* used by the library in Lua; not in the documentation */
};

typedef struct ol_op {
  const char *name;
  const char *doc;     /* one sentence: what it computes, shapes; errors where they surprise */
  const char *example; /* Lua that prints; after `-->` what it prints */
  const char *samples; /* Lua: a list of lists of arguments, see tests/registry_spec.lua */
  ol_param param[OL_MAX_PARAMS + 1]; /* ends with a name of NULL */
  int outputs;                       /* 1 … OL_MAX_OUTPUTS; 0 means 1 */
  unsigned saves;                    /* OL_SAVE_…: which tensors backward reads */
  unsigned flags;                    /* OL_OP_… */
  ol_status (*forward)(ol_error *error, ol_call *call);
  ol_status (*backward)(ol_error *error, ol_back *back); /* NULL: no gradient flows */
} ol_op;

#endif
