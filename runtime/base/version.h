/* version: the release this tree is or becomes. */
#ifndef OL_BASE_VERSION_H
#define OL_BASE_VERSION_H

#define OL_VERSION "0.1.0"

#endif
