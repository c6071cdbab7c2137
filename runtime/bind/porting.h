/* porting: what stands here for names of PyTorch that are not here. */
#ifndef OL_BIND_PORTING_H
#define OL_BIND_PORTING_H

/* What to write instead of a name of PyTorch's, in words, or NULL where nothing is known of it. */
const char *ol_porting(const char *name);

#endif
