/* Long output on a terminal goes through a pager, as git does it. */
#ifndef BASE_PAGER_H
#define BASE_PAGER_H

/* When standard output is a terminal, start $PAGER ("less" when it is not set; with LESS=FRX unless
 * that is set) and make it standard output. Does nothing for an empty $PAGER, "cat", and when there
 * is no less. Whether a pager was started. */
int pager_start(void);

/* Close standard output and wait until the pager has ended. Does nothing without one. */
void pager_wait(void);

#endif
