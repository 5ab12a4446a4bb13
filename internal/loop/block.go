package loop

import "github.com/weirml/weir/internal/sym"

// This file is the part of the language that GPUs need: blocks of threads, shared memory, and roles that work at the same
// time and meet at tokens.
//
// Inside a Block loop, Shared locals belong to the block. Roles divides the block's threads: each role's body runs at the
// same time as the others', as one: a statement outside Thread loops happens once a role, whichever of its threads carry it
// out. What roles share must be ordered by tokens. A Token is a row of barriers that count phases 0, 1, …: the phase under
// way completes when the declared number of arrivals was made and every byte expected was delivered; then the next begins.
// A Wait names the phase by its number and lets nothing but the phase under way or the one before it be asked for, so that
// one bit of the number is enough for hardware. (On Hopper: Token is an mbarrier, Arrive with bytes is arrive.expect_tx,
// BulkCopy is cp.async.bulk.tensor with complete_tx, Wait is try_wait.parity of Phase mod 2, an Async Contract is a group of
// wgmma.mma_async and Drain is wgmma.wait_group.)

// Space says whose a local is.
type Space uint8

// The spaces.
const (
	Own    Space = iota // the worker's; inside a role, the role's: registers or fragments spread over its threads
	Shared              // the block's, for all its roles
)

// Token declares Count barriers of a block. A phase takes Arrivals arrivals.
type Token struct {
	Name            string
	Count, Arrivals sym.Expr
}

// Roles runs the roles' bodies at the same time and ends when all have ended. Every bulk copy has been delivered and every
// asynchronous contraction drained by then.
type Roles struct{ List []*Role }

// Role is one kind of worker in a block: Count of them, each of Threads threads, Var being its number.
type Role struct {
	Name      string
	Var       sym.Name
	Count     sym.Expr
	Threads   int64
	Registers int64 // a thread's registers; 0: as the machine decides
	Body      []Stmt
}

// Arrive counts one arrival at barrier Index of a token, and makes the phase under way expect Bytes more of bulk copies.
// What the role did before is seen by whoever waits for the phase.
type Arrive struct {
	Token        string
	Index, Bytes sym.Expr
}

// Wait ends when phase Phase of barrier Index has completed. Phase −1 has completed before the first.
type Wait struct {
	Token        string
	Index, Phase sym.Expr
}

// BulkCopy begins to copy a box from a parameter to a shared local and goes on at once. The box spans the last len(Box) axes
// of both, from the indices on; elements outside the parameter arrive as zeros. When all has arrived, the box's bytes are
// delivered to barrier At of the token.
type BulkCopy struct {
	To, From           string
	ToIndex, FromIndex []sym.Expr
	Box                []sym.Expr
	Token              string
	At                 sym.Expr
}

// Drain waits until at most Pending of the role's asynchronous contractions, the latest ones, are still under way.
type Drain struct{ Pending int64 }

func (*Token) stmt()    {}
func (*Roles) stmt()    {}
func (*Arrive) stmt()   {}
func (*Wait) stmt()     {}
func (*BulkCopy) stmt() {}
func (*Drain) stmt()    {}
