/* slab: packs the small parameters of a group, and their gradients, side by side. */
#ifndef OL_OPTIM_SLAB_H
#define OL_OPTIM_SLAB_H

#include "optim/group.h"

/* Brings the members into packed order and gives each small one its place: by dtype, first those
 * that keep the next one aligned, then the rest, then the large ones. */
void ol_slab_pack(ol_group *group, ol_member *scratch);

/* Moves parameters that have a place, and their gradients, into slabs. On failure none has moved.
 */
ol_status ol_slab_settle(ol_error *error, ol_group *group);

#endif
