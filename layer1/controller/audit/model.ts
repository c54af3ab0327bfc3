/** One thing that somebody did, or tried to do: as it is kept, and as the API shows it. */
import { z } from 'zod';

const facts = z.record(z.string(), z.unknown());

export const changeSchema = z.object({
  /** Of a resource: its type and id. Of the cell: `host` or `job`. */
  type: z.string(),
  id: z.string(),
  action: z.enum(['create', 'update', 'delete']),
  /** What was wanted of it before and after, with secrets hidden. */
  before: facts.optional(),
  after: facts.optional(),
});
export type AuditChange = z.output<typeof changeSchema>;

export const auditEntrySchema = z.object({
  /** Sorts by time. */
  id: z.string(),
  at: z.string(),
  requestId: z.string(),
  actor: z.object({
    kind: z.enum(['root', 'user', 'service']),
    name: z.string(),
    userId: z.string().optional(),
    tokenId: z.string().optional(),
    /** Of the key that a push was signed with. */
    sshKey: z.string().optional(),
  }),
  /**
   * Method and path of the route: `POST /apps/:app/routes`. Of what the cluster itself tells `began :subject: :text`, or
   * `ended`.
   */
  action: z.string(),
  params: z.record(z.string(), z.string()),
  app: z.object({ id: z.string(), name: z.string().optional() }).optional(),
  from: z.object({ address: z.string(), userAgent: z.string().optional() }),
  /** `done`, without changes where a host did it or it was handed out; `unchanged` when it was so already; else an error's code. */
  outcome: z.string(),
  error: z.string().optional(),
  changes: z.array(changeSchema),
  /** Of what changed nothing: how often the same caller came with the like within a minute; all else is of this one. */
  count: z.int().optional(),
});
export type AuditEntry = z.output<typeof auditEntrySchema>;
