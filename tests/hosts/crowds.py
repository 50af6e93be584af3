"""More threads in several processes than one may have: each line is what was asked, how, and the answer."""

from saying import said
from threads import beside

said("threads", "8400 in seven processes", lambda: beside(7, 1200))
